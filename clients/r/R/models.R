# Models: fits told by formulas, waiting, and what may be done with them later.

# Arguments of a fit that name columns which are no features.
roles <- c("weights", "treatment", "adoption", "exposure", "offset", "event", "lower", "upper", "time",
           "series", "groups", "by")

bart_fit <- function(formula, data, ..., wait = TRUE, progress = interactive(), service = NULL) {
  data <- dataset_of(data, name_of(substitute(data)), service)
  model <- start(service_of(data), "/models", "bart_model", settings_of(formula, data, list(...)))
  if (wait) bart_wait(model, progress = progress) else model
}

# The dataset that was given, by itself or its id, or that of the data frame, which is uploaded.
dataset_of <- function(data, name, service) {
  if (inherits(data, "bart_dataset")) return(data)
  if (is.character(data) && !file.exists(data)) return(bart_dataset(data, service = service))
  bart_upload(data, name = if (is.data.frame(data)) name, service = service)
}

name_of <- function(expression) if (is.symbol(expression)) as.character(expression) else "data"

# Send what creates or continues an object, once.
start <- function(service, path, class, body) {
  object_of(from_json(send("POST", path, content = to_json(body), keyed = TRUE, service = service)), class, service)
}

# Fields of POST /models for a formula: the target, and the features unless they are all others.
settings_of <- function(formula, data, settings) {
  columns <- vapply(data$columns, `[[`, "", "name")
  read <- read_formula(formula, columns)
  target <- read$target
  if (!is.null(read$event)) settings$event <- read$event
  if (!is.null(read$features) && is.null(settings$features)) {
    settings$features <- setdiff(read$features, unlist(settings[names(settings) %in% roles]))
  }
  order <- if (length(target) == 1) attr(data, "ordered")[[target]]
  if (length(order) > 2 && is.null(settings$levels) && (settings$family %||% "ordinal") == "ordinal") {
    settings$family <- "ordinal"
    settings$levels <- order
  }
  if (is.null(settings$family) && length(target) == 1) {
    kind <- vapply(data$columns, `[[`, "", "kind")[columns == target]
    if (length(kind) && kind %in% c("category", "text", "boolean")) settings$family <- "auto" # classes
  }
  c(list(dataset_id = data$id, target = target), settings)
}

# The names in a formula: target(s) left of ~, features right of it, NULL for a single point.
read_formula <- function(formula, columns) {
  if (!inherits(formula, "formula") || length(formula) != 3) {
    fail("error", "formula must be like mpg ~ . or mpg ~ weight + year")
  }
  names_in <- function(expression) vapply(as.list(expression)[-1], column_name, "")
  left <- formula[[2]]
  event <- NULL
  if (is.call(left) && identical(left[[1]], as.name("cbind"))) {
    target <- names_in(left)
  } else if (is.call(left) && identical(left[[1]], as.name("Surv")) && length(left) == 3) {
    target <- column_name(left[[2]])
    event <- column_name(left[[3]])
  } else {
    target <- column_name(left)
  }
  if (identical(formula[[3]], as.name("."))) return(list(target = target, event = event, features = NULL))
  empty <- setNames(rep(list(numeric()), length(columns)), columns)
  read <- terms(formula, data = as.data.frame(empty, optional = TRUE))
  labels <- as.list(attr(read, "variables"))[-(1:2)]
  if (any(attr(read, "order") > 1) || length(attr(read, "offset"))) {
    fail("error", "interactions and offsets are no terms here: trees find interactions by themselves, and offset= names a column")
  }
  used <- rownames(attr(read, "factors"))[rowSums(attr(read, "factors")) > 0]
  kept <- vapply(labels, function(each) paste(deparse(each, backtick = TRUE), collapse = ""), "") %in% used
  list(target = target, event = event, features = vapply(labels[kept], column_name, ""))
}

column_name <- function(expression) {
  if (is.symbol(expression)) return(as.character(expression))
  fail("error", paste0(paste(deparse(expression), collapse = " "), " is no column: compute such columns before, ",
                       "or leave them, since trees need no transformations of features, and transform= and family= ",
                       "say what is learnt of the target"))
}

bart_model <- function(id, service = NULL) {
  service <- as_service(service)
  object_of(from_json(send("GET", address("models", id), service = service)), "bart_model", service)
}

bart_models <- function(service = NULL) {
  listed("/models", c("id", "name", "state", "target", "verdict", "draws", "created_at"), service)
}

bart_wait <- function(x, progress = interactive(), seconds = Inf) {
  service <- service_of(x)
  last <- seconds_now() + seconds
  pause <- 0.1
  repeat {
    x <- object_of(from_json(send("GET", address(kind_of(x), x), service = service)), class(x), service)
    if (is.function(progress)) progress(x) else if (progress) show_progress(x)
    if (!x$state %in% c("queued", "running")) break
    if (seconds_now() + pause > last) {
      fail("waited_too_long", sprintf("It did not end within %g seconds; it continues.", seconds))
    }
    Sys.sleep(pause)
    pause <- min(2, pause * 1.2)
  }
  if (x$state != "succeeded") {
    why <- x$error$detail
    fail("fit_failed", paste0(x$id, " ended as ", x$state, if (is.null(why)) "." else paste0(": ", why)),
         state = x$state, detail = why)
  }
  warn(x$warnings)
  x
}

# One line that is written over: a bar, the share done, and the time left.
show_progress <- function(x) {
  now <- x$progress
  done <- round(30 * now$fraction)
  left <- if (is.null(now$eta_seconds)) "" else sprintf(", %.0f s left", now$eta_seconds)
  what <- gsub("_", " ", now$step %||% now$phase %||% x$state)
  line <- sprintf("[%s%s] %3.0f%% %s%s", strrep("=", done), strrep(" ", 30 - done), 100 * now$fraction, what, left)
  ended <- !x$state %in% c("queued", "running")
  cat("\r", formatC(line, width = -70), if (ended) "\n", sep = "", file = stderr())
}

bart_cancel <- function(x) {
  object_of(ask(x, "cancel", NULL), class(x), service_of(x))
}

bart_extend <- function(model, num_draws = NULL, stop = NULL, wait = TRUE, progress = interactive()) {
  body <- list(num_draws = num_draws, stop = stop)
  model <- start(service_of(model), address("models", model, "extend"), "bart_model", body)
  if (wait) bart_wait(model, progress = progress) else model
}

bart_download <- function(model, path) {
  content <- send("GET", address("models", model, "file"), accept = "application/vnd.bartserve.model", raw = TRUE,
                  service = service_of(model))
  writeBin(content, path)
  invisible(path)
}

print.bart_model <- function(x, ...) {
  cat("<model ", x$id, if (!is.null(x$name)) paste0(" ", x$name), ": ", x$target, ", ", x$state, ">\n", sep = "")
  if (!is.null(x$verdict)) cat("verdict: ", gsub("_", " ", x$verdict), ", ", x$draws, " draws per chain\n", sep = "")
  if (!is.null(x$use$text)) cat(strwrap(x$use$text), sep = "\n")
  invisible(x)
}

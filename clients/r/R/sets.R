# Sets of models: one for each group of a dataset's rows.

bart_fit_many <- function(formula, data, by, ..., wait = TRUE, progress = interactive(), service = NULL) {
  data <- dataset_of(data, name_of(substitute(data)), service)
  fitted <- start(service_of(data), "/model-sets", "bart_set", settings_of(formula, data, list(by = by, ...)))
  if (wait) bart_wait(fitted, progress = progress) else fitted
}

bart_set <- function(id, service = NULL) {
  service <- as_service(service)
  object_of(from_json(send("GET", address("model-sets", id), service = service)), "bart_set", service)
}

print.bart_set <- function(x, ...) {
  done <- x$progress
  cat("<set ", x$id, if (!is.null(x$name)) paste0(" ", x$name), ": ", x$target, " by ", paste(x$by, collapse = ", "),
      ", ", x$groups, " groups, ", done$succeeded, " fitted, ", done$failed, " failed>\n", sep = "")
  invisible(x)
}

# A line for each group: the values that tell it, and its model.
summary.bart_set <- function(object, ...) {
  items <- pages(paste0(address("model-sets", object), "/models"), service_of(object))
  groups <- do.call(rbind, lapply(items, function(item) unlist(item$group)))
  colnames(groups) <- object$by
  why <- vapply(items, function(item) item$error$detail %||% "", "")
  data.frame(groups, lines_of(items, c("model_id", "state", "rows", "verdict", "seconds")), error = why,
             check.names = FALSE)
}

predict.bart_set <- function(object, newdata, level = 0.9, interval = NULL, quantiles = NULL, ...) {
  predicted(object, newdata, list(level = level, interval = interval, quantiles = quantiles, ...))
}

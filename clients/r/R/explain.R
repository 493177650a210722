# What a model says of itself and of its features.

# The model's columns among those of a data frame: like R's other models, others are not looked at.
known_columns <- function(object, frame, more = NULL) {
  frame <- as_frame(frame)
  frame[names(frame) %in% c(unlist(object$settings), more)]
}

# Ask a question of a model or a set, with a body or without.
ask <- function(x, what, body) {
  from_json(send("POST", address(kind_of(x), x, what), content = to_json(body), repeatable = TRUE,
                 service = service_of(x)))
}

look <- function(x, what, ...) {
  from_json(send("GET", paste0(address(kind_of(x), x), "/", what), list(...), service = service_of(x)))
}

# The word in addresses for datasets, models or sets.
kind_of <- function(x) {
  unname(c(bart_dataset = "datasets", bart_model = "models", bart_set = "model-sets")[class(x)[1]])
}

bart_importance <- function(model, ...) {
  ranked <- look(model, "variable-importance", ...)$permutation
  if (is.null(ranked)) {
    fail("no_holdout", paste0("Model ", model$id, " has no importance on held-out rows: fit with holdout = 0.2, say; ",
                              "bart_inclusion() gives the shares of the split rules."))
  }
  figures <- lines_of(ranked$features, c("name", "mean", "lower", "upper"))
  structure(figures, loss = ranked$loss, baseline = ranked$baseline, level = ranked$level)
}

bart_inclusion <- function(model, level = 0.9, ...) {
  lines_of(look(model, "variable-importance", level = level, ...)$features, c("name", "mean", "lower", "upper"))
}

bart_partial_dependence <- function(model, feature, newdata = NULL, level = 0.9, ...) {
  rows <- if (!is.null(newdata)) columns_json(known_columns(model, newdata))
  curve <- ask(model, "partial-dependence", list(features = feature, level = level, columns = rows, ...))
  grid <- setNames(lapply(curve$grid, moments), curve$features)
  # The figures are nested lists by feature, the last one's values innermost, then classes.
  grid <- rev(expand.grid(rev(grid), stringsAsFactors = FALSE, KEEP.OUT.ATTRS = FALSE))
  flat <- function(values) {
    while (is.list(values[[1]])) values <- unlist(values, recursive = FALSE)
    if (is.list(values)) unlist(values) else values
  }
  classes <- if (length(curve$classes) > 2) curve$classes
  each <- function(values) if (is.null(classes)) list(flat(values)) else by_class(flat(values), classes)
  figures <- list(mean = curve$mean, sd = curve$sd)
  for (part in curve$intervals) figures[interval_names(part$level)] <- part[c("lower", "upper")]
  wide <- unlist(unname(Map(function(name, values) {
    setNames(each(values), if (is.null(classes)) name else paste0(name, "_", classes))
  }, names(figures), figures)), recursive = FALSE)
  data.frame(grid, wide, check.names = FALSE)
}

by_class <- function(values, classes) asplit(matrix(values, ncol = length(classes), byrow = TRUE), 2)

bart_shap <- function(model, newdata, level = 0.9, ...) {
  rows <- known_columns(model, newdata)
  told <- ask(model, "shap", list(level = level, columns = columns_json(rows), ...))
  if (length(told$classes) > 2) return(told)
  table <- function(values) {
    values <- matrix(unlist(values), nrow = nrow(rows), byrow = TRUE, dimnames = list(row.names(rows), told$features))
    as.data.frame(values)
  }
  warn(told$warnings)
  structure(table(told$values), lower = table(told$lower), upper = table(told$upper), base = told$base, f = told$f,
            scale = told$scale)
}

bart_effects <- function(model, newdata = NULL, by = NULL, level = 0.9, ...) {
  named <- if (is.list(by)) names(by) else by
  rows <- if (!is.null(newdata)) columns_json(known_columns(model, newdata, named))
  told <- ask(model, "effects", list(by = by, level = level, columns = rows, ...))
  sets <- c(list(average = told$average, treated = told$treated, untreated = told$untreated), told$groups, told$arms)
  sets <- Filter(Negate(is.null), sets)
  told$table <- data.frame(of = names(sets), lines_of(sets, c("mean", "lower", "upper", "positive", "rows", "use")))
  told$each <- as.data.frame(told[c("mean", "lower", "upper", "positive")])
  told[c("mean", "lower", "upper", "positive")] <- NULL
  warn(told$warnings)
  structure(told, class = "bart_effects")
}

print.bart_effects <- function(x, ...) {
  cat("Effect: ", x$difference, ", with ", 100 * x$level, "% intervals\n", sep = "")
  print(x$table, digits = 4, row.names = FALSE)
  cat(strwrap(c(x$use$text, x$holds, x$hidden)), sep = "\n")
  invisible(x)
}

summary.bart_model <- function(object, ...) {
  has_holdout <- !is.null(object$holdout$rows) && object$state == "succeeded"
  importance <- if (has_holdout) tryCatch(bart_importance(object), bartserve_problem = function(e) NULL,
                                          bartserve_no_holdout = function(e) NULL)
  structure(list(model = object, importance = importance), class = "summary.bart_model")
}

print.summary.bart_model <- function(x, ...) {
  model <- x$model
  settings <- model$settings
  print(model)
  cat("\n", settings$family, " by ", settings$method, ", ", settings$num_trees, " trees, ", settings$num_chains,
      " chains of ", model$draws, " draws\n", sep = "")
  cat(strwrap(unlist(model$diagnostics$reasons)), sep = "\n")
  held <- model$holdout
  if (!is.null(held$rmse)) {
    cat("\nheld out ", held$rows, " rows: RMSE ", signif(held$rmse, 3), ", a linear model's ",
        signif(held$linear_rmse %||% NA, 3), "\n", sep = "")
  }
  if (!is.null(held$intervals_verdict)) cat(strwrap(held$intervals_verdict$text), sep = "\n")
  if (!is.null(x$importance)) {
    cat("\nincrease of ", attr(x$importance, "loss"), " when a feature is shuffled, with ",
        100 * attr(x$importance, "level"), "% intervals\n", sep = "")
    print(x$importance, digits = 3, row.names = FALSE)
  }
  invisible(x)
}

# Draws by chain, which should lie on each other, or the curve of a feature with its interval.
plot.bart_model <- function(x, feature = NULL, level = 0.9, ...) {
  if (is.null(feature)) {
    traces <- look(x, "diagnostics")$traces
    of <- if (is.null(traces$sigma)) "log_likelihood" else "sigma"
    draws <- do.call(cbind, traces[[of]])
    graphics::matplot(traces$draws + 1, draws, type = "l", lty = 1, xlab = "draw", ylab = gsub("_", " ", of),
                      main = paste(x$target, "- draws by chain"), ...)
    return(invisible(draws))
  }
  curve <- bart_partial_dependence(x, feature, level = level)
  ends <- curve[interval_names(level)]
  at <- curve[[feature]]
  is_line <- !is.character(at) && !is.logical(at)
  shown <- if (is_line) which(!is.na(at)) else seq_along(at) # a missing value has no place among numbers
  curve <- curve[shown, ]
  ends <- ends[shown, ]
  at <- if (is_line) at[shown] else shown
  graphics::plot.default(at, curve$mean, type = "n", ylim = range(ends), xlab = feature, ylab = x$target, xaxt = "n", ...)
  if (is_line) {
    graphics::Axis(curve[[feature]], side = 1)
    graphics::polygon(c(at, rev(at)), c(ends[[1]], rev(ends[[2]])), col = "grey85", border = NA)
    graphics::lines(at, curve$mean)
  } else {
    graphics::axis(1, at, ifelse(is.na(curve[[feature]]), "missing", curve[[feature]]))
    graphics::segments(at, ends[[1]], at, ends[[2]])
    graphics::points(at, curve$mean, pch = 19)
  }
  invisible(curve)
}

# Predictions as data frames.

predict.bart_model <- function(object, newdata, level = 0.9, interval = NULL, quantiles = NULL, ...) {
  if (missing(newdata)) fail("error", "newdata is missing: give the rows to predict as a data frame.")
  predicted(object, newdata, list(level = level, interval = interval, quantiles = quantiles, ...))
}

predicted <- function(object, newdata, asked) {
  newdata <- as_frame(newdata)
  asked$columns <- columns_json(known_columns(object, newdata, object$by))
  prediction_frame(ask(object, "predict", asked), row.names(newdata))
}

percent <- function(share) sprintf("%.10g", 100 * share)
interval_names <- function(level) paste0(c("lower_", "upper_"), percent(level))

# Columns mean, sd, lower_90, upper_90, ..., of several classes with their names: mean_setosa.
prediction_frame <- function(answer, labels) {
  wide <- list(mean = answer$mean, sd = answer$sd)
  for (part in answer$intervals) {
    wide[interval_names(part$level)] <- part[c("lower", "upper")]
  }
  for (part in answer$quantiles) wide[[paste0("quantile_", percent(part$q))]] <- part$values
  frame <- list()
  for (name in names(wide)) {
    values <- wide[[name]]
    if (is.list(values) && length(values)) {
      rows <- do.call(rbind, lapply(values, function(row) row %||% NA)) # of no model: missing
      frame[paste0(name, "_", answer$classes)] <- lapply(seq_along(answer$classes), function(k) rows[, k])
    } else if (!is.null(values)) {
      frame[[name]] <- as.numeric(values)
    }
  }
  for (part in answer$sets) {
    for (each in answer$classes) {
      inside <- vapply(part$classes, function(row) each %in% unlist(row), NA)
      frame[[paste0("set_", percent(part$level), "_", each)]] <- inside
    }
  }
  warn(answer$warnings)
  structure(data.frame(frame, check.names = FALSE, row.names = labels), flags = flags_of(answer$flags),
            interval = answer$interval, verdict = answer$verdict, classes = answer$classes,
            claims = answer$claims, model_id = answer$model_id)
}

# A line for each unusual cell.
flags_of <- function(flags) {
  part <- function(name) as.character(unlist(lapply(flags, function(row) lapply(row, `[[`, name))))
  data.frame(row = rep(seq_along(flags), lengths(flags)), column = part("column"), flag = part("flag"))
}

# Predictions as data frames.

predict.bart_model <- function(object, newdata, level = 0.9, interval = NULL, quantiles = NULL, ...) {
  if (missing(newdata)) fail("error", "newdata is missing: give the rows to predict as a data frame.")
  newdata <- as_frame(newdata)
  # Like R's other models: columns that the model doesn't know are not looked at.
  rows <- newdata[names(newdata) %in% c(unlist(object$settings), object$settings$features)]
  body <- list(level = level, interval = interval, quantiles = quantiles, ..., columns = columns_json(rows))
  answer <- from_json(send("POST", address("models", object, "predict"), content = to_json(body),
                           repeatable = TRUE, service = service_of(object)))
  prediction_frame(answer, row.names(newdata))
}

# Columns mean, sd, lower_90, upper_90, ..., of several classes with their names: mean_setosa.
prediction_frame <- function(answer, labels) {
  percent <- function(share) sprintf("%.10g", 100 * share)
  wide <- list(mean = answer$mean, sd = answer$sd)
  for (part in answer$intervals) {
    wide[paste0(c("lower_", "upper_"), percent(part$level))] <- part[c("lower", "upper")]
  }
  for (part in answer$quantiles) wide[[paste0("quantile_", percent(part$q))]] <- part$values
  frame <- list()
  for (name in names(wide)) {
    values <- wide[[name]]
    if (is.list(values) && length(values)) {
      by_class <- do.call(rbind, values)
      frame[paste0(name, "_", answer$classes)] <- lapply(seq_len(ncol(by_class)), function(k) by_class[, k])
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

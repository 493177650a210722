# Forecasts of series, by models fitted with time and horizon.

# Text of dates and times as what it is; anything else as it is.
moments <- function(values) {
  values <- unlist(values)
  if (!is.character(values) || !length(values)) return(values)
  if (all(grepl("^\\d{4}-\\d{2}-\\d{2}$", values))) return(as.Date(values))
  if (!all(grepl("^\\d{4}-\\d{2}-\\d{2}([T ]\\d{2}:\\d{2}.*)?$", values))) return(values)
  text <- sub("T", " ", values)
  text <- ifelse(nchar(text) == 10, paste(text, "00:00"), text)
  zone <- sub("^.{16}[0-9:.]*", "", text)
  clock <- substr(text, 1, nchar(text) - nchar(zone))
  clock <- ifelse(nchar(clock) == 16, paste0(clock, ":00"), clock)
  offset <- ifelse(zone %in% c("", "Z"), "+0000", sub(":", "", zone))
  as.POSIXct(paste0(clock, offset), format = "%Y-%m-%d %H:%M:%OS%z", tz = "UTC")
}

bart_plan_template <- function(model) {
  as.data.frame(lapply(look(model, "forecast/template"), function(column) {
    moments(lapply(column, function(value) value %||% NA))
  }), optional = TRUE)
}

# The columns that a forecaster of `model` knows ahead, as rows.
asked_forecast <- function(model, plan, body) {
  if (is.character(plan) || inherits(plan, "bart_dataset")) {
    body$known <- if (is.character(plan)) plan else plan$id
  } else if (!is.null(plan)) {
    body$known <- rows_json(known_columns(model, plan))
  }
  ask(model, "forecast", body)
}

bart_forecast <- function(model, plan = NULL, level = 0.9, interval = NULL, series = NULL, at = NULL) {
  told <- asked_forecast(model, plan, list(level = level, interval = interval, series = series, at = at))
  steps <- lengths(told$time)
  each <- rep(seq_along(steps), steps)
  frame <- lapply(told$series, function(values) moments(values)[each])
  frame[[told$time_name]] <- moments(told$time)
  flags <- vapply(told$flags, function(each) paste(each, collapse = ", "), "")
  frame <- c(frame, list(step = sequence(steps), median = unlist(told$median), lower = unlist(told$lower),
                         upper = unlist(told$upper), flags = flags[each]))
  warn(told$warnings)
  structure(data.frame(frame, check.names = FALSE), claim = told$claim, interval = told$interval, level = told$level)
}

bart_total <- function(model, plan = NULL, steps = NULL, by = NULL, level = 0.9, interval = NULL, series = NULL) {
  total <- list(steps = if (!is.null(steps)) as.list(steps), by = by)
  body <- list(level = level, interval = interval, series = series, totals = list(Filter(Negate(is.null), total)))
  told <- asked_forecast(model, plan, body)
  total <- told$totals[[1]]
  sets <- lapply(total$sets, moments)
  frame <- c(sets, list(from = total$steps[1], to = total$steps[2]), total[c("count", "median", "lower", "upper")])
  warn(told$warnings)
  structure(data.frame(frame, check.names = FALSE), claim = total$claim)
}

bart_rehearsals <- function(model, level = 0.9) {
  told <- look(model, "forecast/rehearsals", level = level)
  frame <- c(list(origin = moments(told$origin)), told[c("step", "number", "inside", "loss", "naive_loss")])
  structure(data.frame(frame), claim = told$claim, level = told$level)
}

# A running service is needed, at BARTSERVE_URL; without one these tests say that they were skipped.
short <- list(num_trees = 10, num_chains = 2, num_burnin = 20, num_draws = 20, thin = 1, seed = 1)

need_service <- function() {
  if (!nzchar(Sys.getenv("BARTSERVE_URL"))) skip("BARTSERVE_URL names no service")
  bart_connect()
}

# What takes longer is tried where BARTSERVE_LONG is set.
need_time <- function() if (!nzchar(Sys.getenv("BARTSERVE_LONG"))) skip("BARTSERVE_LONG isn't set")

# A fit that takes a second or two, and warnings of which are of no interest here.
quick_fit <- function(...) suppressWarnings(do.call(bart_fit, c(list(...), short)))

# Every kind of column that R has, some of it missing.
every_kind <- function(n = 40) {
  k <- seq_len(n)
  frame <- data.frame(
    y = k / 3 + k %% 7, double = 1 / k, integer = k, logical = k %% 2 == 0,
    text = c("NA", "none", "007", "a \"b\", c")[k %% 4 + 1],
    factor = factor(c("2024-01-01", "1", "\u00e9t\u00e9")[k %% 3 + 1]),
    ordered = factor(c("low", "middle", "high")[k %% 3 + 1], c("low", "middle", "high"), ordered = TRUE),
    date = as.Date("2024-02-28") + k,
    utc = as.POSIXct("2024-03-31 00:30:00", tz = "UTC") + 3600 * k,
    berlin = as.POSIXct("2024-03-31 00:30:00.25", tz = "Europe/Berlin") + 3600 * k,
    span = as.difftime(k, units = "mins")
  )
  frame$constant_na <- NA_real_
  for (j in 2:11) frame[j * 2, j] <- NA
  frame
}

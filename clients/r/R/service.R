# The exchange with a service: the key, safe retries, and JSON both ways.

first_pause <- 0.25 # seconds before a retry where the service asks for none, and the longest
last_pause <- 8
session <- new.env(parent = emptyenv())

bart_connect <- function(url = NULL, key = NULL, retries = 5, patience = 60) {
  given <- function(value, name) if (is.null(value)) Sys.getenv(name) else value
  url <- given(url, "BARTSERVE_URL")
  url <- sub("/+$", "", if (nzchar(url)) url else "http://127.0.0.1:8000")
  service <- structure(class = "bart_service", list(url = url, retries = retries, patience = patience))
  # Keys stay here: datasets and models have their service in them, and are saved in files.
  session$keys[[url]] <- given(key, "BARTSERVE_KEY")
  session$service <- service
  invisible(service)
}

key_of <- function(service) session$keys[[service$url]] %||% ""

print.bart_service <- function(x, ...) {
  cat("<bartserve at ", x$url, if (nzchar(key_of(x))) ", with a key", ">\n", sep = "")
  invisible(x)
}

bart_ready <- function(service = NULL) {
  service <- as_service(service)
  service$retries <- 0
  tryCatch(is.list(bart_request("GET", "/health/ready", service = service)),
           bartserve_error = function(e) FALSE)
}

bart_request <- function(method, path, query = list(), body = NULL, service = NULL) {
  from_json(send(method, path, query, content = if (!is.null(body)) to_json(body), service = service))
}

# The service of a call: the one given, else the one connected to last.
as_service <- function(service) service %||% session$service %||% bart_connect()

# Send a request, again where that is safe, and return the answer's body as text (or raw bytes).
# `repeatable`: it may be sent twice; `keyed`: an Idempotency-Key makes it so.
send <- function(method, path, query = list(), content = NULL, type = "application/json",
                 accept = "application/json", repeatable = method %in% c("GET", "DELETE"),
                 keyed = FALSE, raw = FALSE, service = NULL) {
  service <- as_service(service)
  request <- httr2::request(paste0(service$url, path, query_string(query)))
  request <- httr2::req_method(request, method)
  request <- httr2::req_headers(request, Accept = accept)
  key <- key_of(service)
  if (nzchar(key)) request <- httr2::req_headers(request, Authorization = paste("Bearer", key))
  if (keyed) request <- httr2::req_headers(request, `Idempotency-Key` = new_key())
  if (!is.null(content)) request <- httr2::req_body_raw(request, content, type)
  request <- httr2::req_error(request, is_error = function(answer) FALSE)
  request <- httr2::req_options(request, connecttimeout = 5, low_speed_limit = 1, low_speed_time = 120)
  deadline <- seconds_now() + service$patience
  for (attempt in 0:service$retries) {
    answer <- tryCatch(perform(request, service$url), bartserve_error = identity)
    if (!inherits(answer, "condition")) break
    pause <- pause_before_retry(answer, attempt, repeatable || keyed)
    if (is.na(pause) || attempt == service$retries || seconds_now() + pause > deadline) stop(answer)
    Sys.sleep(pause)
  }
  if (raw) return(httr2::resp_body_raw(answer))
  if (length(answer$body)) httr2::resp_body_string(answer, "UTF-8") else ""
}

perform <- function(request, url) {
  answer <- tryCatch(httr2::req_perform(request), error = function(error) {
    said <- conditionMessage(error)
    while (inherits(error$parent, "condition")) said <- conditionMessage(error <- error$parent)
    advice <- "Is the service running there (bartserve up, or BARTSERVE_URL for another URL)?"
    fail("no_answer", paste0("No response from ", url, ": ", said, ". ", advice),
         unsent = grepl("connect to|resolve", said))
  })
  status <- httr2::resp_status(answer)
  if (status < 300) return(answer)
  text <- if (length(answer$body)) httr2::resp_body_string(answer, "UTF-8") else ""
  after <- httr2::resp_header(answer, "Retry-After") %||% NA
  fail_by_problem(status, text, suppressWarnings(as.numeric(after)))
}

# Seconds until a retry, or NA where there must be none.
pause_before_retry <- function(error, attempt, again) {
  refused <- inherits(error, "bartserve_problem")
  worth <- if (!refused) error$unsent || again else
    error$status %in% c(429, 503) || error$type == "/problems/request-in-flight" ||
      (error$status %in% c(502, 504) && again)
  if (!worth) return(NA)
  if (refused && !is.na(error$retry_after)) return(error$retry_after)
  min(last_pause, first_pause * 2^attempt) * (0.75 + 0.5 * unclass(seconds_now()) %% 1) # with jitter
}

seconds_now <- function() as.numeric(Sys.time())

# A key that no other call has, by the session's folder, whose name is random: draws of R's own generator would
# change the user's sequence.
new_key <- function() {
  session$calls <- (session$calls %||% 0) + 1
  sprintf("%s-%.6f-%d", basename(tempdir()), seconds_now(), session$calls)
}

query_string <- function(query) {
  query <- query[!vapply(query, is.null, NA)]
  parts <- unlist(Map(function(name, values) {
    values <- if (is.logical(values)) tolower(values) else number_text_or(values)
    paste0(name, "=", vapply(enc2utf8(values), URLencode, "", reserved = TRUE))
  }, names(query), query))
  if (length(parts)) paste0("?", paste(parts, collapse = "&")) else ""
}

number_text_or <- function(values) if (is.numeric(values)) number_text(values) else as.character(values)

address <- function(...) {
  steps <- vapply(list(...), function(step) if (is.list(step)) step$id %||% step$set_id else step, "")
  paste0("/", vapply(steps, URLencode, "", reserved = TRUE), collapse = "")
}

from_json <- function(text) {
  jsonlite::fromJSON(text, simplifyDataFrame = FALSE, simplifyMatrix = FALSE)
}

# Fields of requests that are lists, also of one value, and those that are objects of lists.
lists <- c("features", "levels", "groups", "slopes", "subgroups", "quantiles", "series", "totals")
lists_by_name <- c("grid", "by")

# Write a request: named vectors are objects, NULL is left out, data frames are columns of cells.
to_json <- function(body) {
  body <- body[!vapply(body, is.null, NA)]
  body[] <- Map(function(name, value) plain(value, name %in% lists, name %in% lists_by_name), names(body), body)
  if (!length(body)) return("{}")
  as.character(jsonlite::toJSON(body, auto_unbox = TRUE, null = "null", na = "null", digits = NA,
                                json_verbatim = TRUE))
}

plain <- function(value, as_list = FALSE, parts_as_lists = FALSE) {
  if (inherits(value, "json")) return(value)
  if (is.data.frame(value)) return(columns_json(value))
  if (is.list(value)) return(lapply(value, plain, as_list = parts_as_lists))
  if (is.factor(value) || inherits(value, c("Date", "POSIXt"))) value <- cells(value, "")$text
  if (!is.null(names(value))) return(as.list(value))
  if (as_list) as.list(value) else value
}

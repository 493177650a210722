# Conditions: every error has the class "bartserve_error" and one that says what happened.

fail <- function(kind, message, ...) {
  classes <- unique(c(paste0("bartserve_", kind), "bartserve_error", "error", "condition"))
  stop(structure(class = classes, list(message = message, call = NULL, ...)))
}

# A refusal of the service (RFC 9457): `errors` has a line for each fault, with its column and row.
fail_by_problem <- function(status, text, retry_after = NA_real_) {
  document <- tryCatch(from_json(text), error = function(e) NULL)
  if (!is.list(document) || is.null(names(document))) { # from a proxy or another service
    document <- list(title = "", detail = substr(trimws(text), 1, 200))
  }
  errors <- places(document$errors)
  type <- document$type %||% "about:blank"
  where <- ifelse(is.na(errors$row), errors$column, paste0(errors$column, ", row ", errors$row))
  lines <- ifelse(is.na(errors$column), errors$detail, paste0(where, ": ", errors$detail))
  # The detail of a document with one fault says it already.
  lines <- if (nrow(errors) > 1) paste0("\n* ", lines, collapse = "") else ""
  # /problems/unusable-data becomes the class bartserve_unusable_data
  classes <- c(gsub("-", "_", basename(type)), "problem")
  fail(classes, paste0(status, " ", document$title, ": ", document$detail, lines),
       status = status, type = type, detail = document$detail, errors = errors,
       request_id = document$request_id, document = document, retry_after = retry_after)
}

places <- function(errors) {
  part <- function(name, none) vapply(errors, function(e) e[[name]] %||% none, none)
  data.frame(column = part("column", NA_character_), row = as.integer(part("row", NA_real_ + 0L)),
             detail = part("detail", ""), code = part("code", NA_character_))
}

# Warnings of the service, as one of R's, of class "bartserve_warning".
warn <- function(sentences) {
  if (!length(sentences)) return(invisible())
  warning(structure(class = c("bartserve_warning", "warning", "condition"),
                    list(message = paste(sentences, collapse = "\n"), call = NULL, sentences = unlist(sentences))))
}

`%||%` <- function(value, other) if (is.null(value)) other else value

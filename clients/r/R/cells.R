# Data frames as the service reads them: each column as text of one kind, which is declared.

# Spellings that the service takes for a missing value unless it is told otherwise.
spelled_missing <- c("na", "n/a", "#n/a", "<na>", "nan", "null", "none", "nil", "?", "-", "--", ".")
no_spelling <- "\u2400" # the sign for nothing, which then alone means missing beside an empty cell

# The cells of a column: `text`, NA where a value is missing, and their kind.
cells <- function(column, name) {
  of <- function(kind, text) list(kind = kind, text = ifelse(is.na(column), NA_character_, text))
  if (inherits(column, "POSIXlt")) column <- as.POSIXct(column)
  if (is.factor(column) || is.character(column)) return(of("category", enc2utf8(as.character(column))))
  if (is.logical(column)) return(of("boolean", ifelse(column, "true", "false")))
  if (inherits(column, "Date")) return(of("date", format(column, "%Y-%m-%d")))
  if (inherits(column, "POSIXct")) return(of("date", time_text(column)))
  if (inherits(column, "difftime")) column <- as.numeric(column, units = "secs")
  if (inherits(column, "integer64")) return(of("number", as.character(column)))
  if (is.numeric(column) && is.null(dim(column))) return(of("number", number_text(column)))
  detail <- paste0("a column of class ", class(column)[1], " can't be sent: convert it to numbers, text, ",
                   "a factor, dates or times")
  fail("unusable_data", paste0(name, ": ", detail),
       errors = data.frame(column = name, row = NA_integer_, detail = detail, code = NA_character_))
}

# Numbers as text that reads back as the same bits. The service refuses infinite ones by column and row.
number_text <- function(numbers) {
  if (is.integer(numbers)) return(as.character(numbers))
  numbers <- as.numeric(numbers)
  text <- sprintf("%.15g", numbers)
  longer <- which(is.finite(numbers))
  longer <- longer[as.numeric(text[longer]) != numbers[longer]]
  text[longer] <- sprintf("%.17g", numbers[longer])
  text[which(numbers == Inf)] <- "1e999"
  text[which(numbers == -Inf)] <- "-1e999"
  text
}

# Times as ISO 8601 in UTC, to the microsecond: a time of R is a moment, in whatever zone it is shown.
time_text <- function(times) {
  microseconds <- round(as.numeric(times) * 1e6)
  whole <- floor(microseconds / 1e6)
  fraction <- microseconds - whole * 1e6
  text <- format(as.POSIXct(whole, origin = "1970-01-01", tz = "UTC"), "%Y-%m-%dT%H:%M:%S")
  paste0(text, ifelse(fraction == 0, "", sprintf(".%06.0f", fraction)), "Z")
}

quoted <- function(text) paste0("\"", gsub("\"", "\"\"", text, fixed = TRUE), "\"")

# A CSV file of a data frame, and how to read it: nothing about it is left to be guessed.
as_csv <- function(frame) {
  columns <- Map(cells, as.list(frame), names(frame))
  kind <- vapply(columns, `[[`, "", "kind")
  written <- lapply(columns, function(column) {
    text <- if (column$kind == "category") quoted(column$text) else column$text
    ifelse(is.na(column$text), "", text)
  })
  texts <- unlist(lapply(columns[kind == "category"], function(column) unique(column$text)))
  clash <- any(tolower(trimws(texts)) %in% spelled_missing)
  lines <- c(paste(quoted(enc2utf8(names(frame))), collapse = ","), do.call(paste, c(unname(written), sep = ",")))
  list(
    content = charToRaw(paste0(paste(lines, collapse = "\n"), "\n")),
    query = list(separator = "comma", quoting = "double", encoding = "utf-8", decimal = "point",
                 header = TRUE, header_line = 1, totals = "keep", missing = if (clash) no_spelling),
    # What is written as a number is read as one; a declaration of each would make a long address.
    kinds = kind[kind != "number"]
  )
}

# Columns as JSON: cells with the same bits as in a file.
columns_json <- function(frame) {
  columns <- json_cells(frame)
  text <- vapply(columns, function(column) paste0("[", paste(column, collapse = ","), "]"), "")
  json_of(paste0("{", paste0(json_text(names(frame)), ":", text, collapse = ","), "}"))
}

# Rows as JSON: a list of objects.
rows_json <- function(frame) {
  columns <- Map(function(name, cell) paste0(json_text(name), ":", cell), names(frame), json_cells(frame))
  json_of(paste0("[", paste0("{", do.call(paste, c(unname(columns), sep = ",")), "}", collapse = ","), "]"))
}

json_cells <- function(frame) {
  Map(function(column, name) {
    read <- cells(column, name)
    text <- if (read$kind %in% c("category", "date")) json_text(read$text) else read$text
    ifelse(is.na(read$text), "null", text)
  }, as.list(frame), names(frame))
}

json_text <- function(text) {
  vapply(enc2utf8(as.character(text)), function(each) as.character(jsonlite::toJSON(each, auto_unbox = TRUE)), "")
}

json_of <- function(text) structure(text, class = "json")

# One data frame from what was given as one: a tibble, a list of columns or a row.
as_frame <- function(data) {
  if (is.data.frame(data) || is.list(data)) return(as.data.frame(data, optional = TRUE, stringsAsFactors = FALSE))
  fail("error", paste0("A ", class(data)[1], " is no table: give a data frame."))
}

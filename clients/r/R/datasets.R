# Datasets: tables that were uploaded.

file_types <- c(tsv = "text/tab-separated-values", tab = "text/tab-separated-values", gz = "application/gzip",
                parquet = "application/vnd.apache.parquet", pq = "application/vnd.apache.parquet",
                xlsx = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
                xls = "application/vnd.ms-excel",
                ods = "application/vnd.oasis.opendocument.spreadsheet", zip = "application/zip",
                json = "application/x-ndjson", jsonl = "application/x-ndjson")

# An answer of the service as an object of R that knows its service.
object_of <- function(document, class, service) {
  structure(document, class = class, service = service)
}

service_of <- function(x, service = NULL) service %||% attr(x, "service")

bart_upload <- function(data, name = NULL, kinds = NULL, ..., service = NULL) {
  service <- as_service(service)
  if (is.character(data) && length(data) == 1) {
    if (!file.exists(data)) fail("error", paste0(data, " can't be opened: there is no such file."))
    name <- name %||% tools::file_path_sans_ext(basename(data))
    type <- file_types[tolower(tools::file_ext(data))]
    body <- list(content = readBin(data, "raw", file.size(data)), query = list(...))
    type <- if (is.na(type)) "text/csv" else type
  } else {
    name <- name %||% name_of(substitute(data))
    data <- as_frame(data)
    body <- as_csv(data)
    type <- "text/csv"
  }
  kinds <- c(body$kinds[setdiff(names(body$kinds), names(kinds))], kinds)
  query <- c(body$query, list(name = name))
  if (length(kinds)) query$kind <- paste0(names(kinds), ":", kinds)
  text <- send("POST", "/datasets", query, content = body$content, type = type, keyed = TRUE, service = service)
  dataset <- object_of(from_json(text), "bart_dataset", service)
  # A CSV file has no order of levels: the object keeps that of ordered factors, for fits to them.
  if (is.data.frame(data)) attr(dataset, "ordered") <- lapply(Filter(is.ordered, as.list(data)), levels)
  warn(dataset$warnings)
  dataset
}

bart_dataset <- function(id, service = NULL) {
  service <- as_service(service)
  object_of(from_json(send("GET", address("datasets", id), service = service)), "bart_dataset", service)
}

bart_datasets <- function(service = NULL) {
  listed("/datasets", c("id", "name", "num_rows", "created_at"), service)
}

listed <- function(path, columns, service) {
  lines_of(pages(path, service), columns)
}

# The items of all pages.
pages <- function(path, service) {
  items <- list()
  cursor <- NULL
  repeat {
    page <- from_json(send("GET", path, list(limit = 200, cursor = cursor), service = service))
    items <- c(items, page$items)
    cursor <- page$next_cursor
    if (is.null(cursor)) return(items)
  }
}

# A list of objects with the same fields as a data frame, a line for each.
lines_of <- function(objects, fields) {
  as.data.frame(setNames(lapply(fields, function(field) {
    unlist(lapply(unname(objects), function(each) each[[field]] %||% NA)) %||% character()
  }), fields))
}

columns_of <- function(dataset) {
  part <- function(name) vapply(dataset$columns, function(column) as.character(column[[name]]), "")
  data.frame(name = part("name"), kind = part("kind"), missing = as.integer(part("missing")),
             distinct = as.integer(part("distinct")), note = part("note"))
}

print.bart_dataset <- function(x, ...) {
  cat("<dataset ", x$id, " ", x$name, ": ", x$num_rows, " rows>\n", sep = "")
  print(columns_of(x), right = FALSE, row.names = FALSE)
  invisible(x)
}

bart_delete <- function(x, service = NULL) {
  kind <- if (is.list(x)) kind_of(x) else c(ds = "datasets", set = "model-sets")[sub("_.*", "", x)]
  send("DELETE", address(if (is.na(kind)) "models" else kind, x), service = service_of(x, service))
  invisible(NULL)
}

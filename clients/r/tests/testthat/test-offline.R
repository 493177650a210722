test_that("numbers are written with all of their bits, whole ones briefly", {
  numbers <- c(0.1, 1 / 3, 0.1 + 0.2, 1e300, -5e-324, 2^53, 5, NA)
  text <- bartserve:::number_text(numbers)
  expect_identical(as.numeric(text[1:7]), numbers[1:7])
  expect_identical(text[7], "5")
})

test_that("times are the same moments in UTC in whatever zone they are shown", {
  moment <- as.POSIXct("2024-07-01 12:00:00", tz = "UTC") + c(0, 0.25)
  here <- moment
  attr(here, "tzone") <- "America/New_York"
  expect_identical(bartserve:::time_text(moment), c("2024-07-01T12:00:00Z", "2024-07-01T12:00:00.250000Z"))
  expect_identical(bartserve:::time_text(here), bartserve:::time_text(moment))
  expect_identical(bartserve:::time_text(as.POSIXct(-0.5, origin = "1970-01-01")), "1969-12-31T23:59:59.500000Z")
})

test_that("formulas name targets and features, and nothing else", {
  read <- function(formula) bartserve:::read_formula(formula, c("y", "z", "a", "b c", "d"))
  expect_null(read(y ~ .)$features)
  expect_identical(read(y ~ . - a)$features, c("z", "b c", "d"))
  expect_identical(read(y ~ a + `b c`)$features, c("a", "b c"))
  expect_identical(read(cbind(y, z) ~ . - a), list(target = c("y", "z"), event = NULL, features = c("b c", "d")))
  expect_identical(read(Surv(y, z) ~ .)[c("target", "event")], list(target = "y", event = "z"))
  for (wrong in list(log(y) ~ ., y ~ a:d, y ~ a * d, y ~ log(a), y ~ offset(a), ~a)) {
    expect_error(read(wrong), class = "bartserve_error")
  }
})

test_that("a column that can't be sent is an error with its name", {
  frame <- data.frame(y = 1:2)
  frame$parts <- list(1, 2:3)
  refused <- expect_error(bartserve:::as_csv(frame), class = "bartserve_unusable_data")
  expect_identical(refused$errors$column, "parts")
})

test_that("lists stay lists, and named vectors are objects", {
  body <- list(features = "a", columns = c(a = "number"), level = 0.9, name = NULL)
  expect_identical(bartserve:::to_json(body), "{\"features\":[\"a\"],\"columns\":{\"a\":\"number\"},\"level\":0.9}")
})

test_that("a call that may be repeated is retried, and others are not", {
  pause <- bartserve:::pause_before_retry
  problem <- function(status, after = NA_real_) {
    structure(class = c("bartserve_problem", "error", "condition"),
              list(message = "", status = status, type = "about:blank", retry_after = after))
  }
  expect_identical(pause(problem(429, 3), 0, FALSE), 3)
  expect_true(pause(problem(503), 0, FALSE) > 0)
  expect_true(is.na(pause(problem(502), 0, FALSE)))
  expect_true(pause(problem(502), 9, TRUE) <= 10)
  expect_true(is.na(pause(problem(422), 0, TRUE)))
  lost <- structure(class = c("bartserve_no_answer", "error", "condition"), list(message = "", unsent = FALSE))
  expect_true(is.na(pause(lost, 0, FALSE)))
  expect_true(pause(lost, 0, TRUE) > 0)
})

test_that("a service that isn't there is an error that says what to do", {
  nobody <- bart_connect("http://127.0.0.1:9", retries = 0)
  expect_false(bart_ready(nobody))
  expect_error(bart_models(nobody), "bartserve up", class = "bartserve_no_answer")
})

test_that("a key stays out of objects, and goes to its service alone", {
  service <- bart_connect("http://127.0.0.1:9", key = "bart_secret")
  expect_false(any(grepl("bart_secret", capture.output(dput(service), print(service)))))
  expect_identical(bartserve:::key_of(service), "bart_secret")
  expect_identical(bartserve:::key_of(list(url = "http://127.0.0.1:10")), "")
})

test_that("dates and times of answers are those of R, in UTC", {
  moments <- bartserve:::moments
  expect_identical(moments(c("2024-01-01", "2024-02-29")), as.Date(c("2024-01-01", "2024-02-29")))
  times <- moments(c("2024-07-01T10:30:00.25+02:00", "2024-07-01 08:30", "2024-07-01", "2024-07-01T08:30:00Z"))
  expect_equal(as.numeric(times - times[3], units = "mins"), c(510 + 0.25 / 60, 510, 0, 510))
  expect_identical(moments(c("2014 Q1", "2014 Q2")), c("2014 Q1", "2014 Q2"))
})

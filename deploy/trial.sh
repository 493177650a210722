#!/bin/sh
# Try the whole stack of docker-compose.yml in an engine: fits and predictions, an upgrade, a dump and its restore,
# the sign-in. Whatever can't be tried here is named at the end.
#
#   deploy/trial.sh [REVISION]   upgrade from that older revision of this repository (default: the newest tag)
#
# ENGINE=docker or podman chooses between the two. TRIAL_ISSUER, TRIAL_CLIENT_ID and TRIAL_CLIENT_SECRET are a provider's
# (OpenID Connect), with the redirect http://127.0.0.1:4180/oauth2/callback. Ends with 0 if all was tried and held, 1 if
# something failed, 3 if something couldn't be tried. It has a project of its own, whose volume it removes.
set -eu

ROOT=$(cd "$(dirname "$0")/.." && pwd)
AT=http://127.0.0.1:8000
PLACE=
NOT_TRIED=
COMPOSE=

say() { printf '%s\n' "$*" >&2; }
not_tried() {
    NOT_TRIED="$NOT_TRIED
  not tried: $*"
}
fail() {
    say "failed: $*"
    exit 1
}

# Say what wasn't tried, and end with the code for it.
finish() {
    [ -z "$NOT_TRIED" ] || { say "${NOT_TRIED#?}"; exit 3; }
    say "all was tried"
}

# Take down what runs, and the folders.
leave() {
    code=$?
    trap - EXIT
    case $code in 0 | 3 | 130) ;; *) code=1 ;; esac # whatever a tool ended with
    if [ -n "$PLACE" ]; then
        [ ! -d "$PLACE/new" ] || compose new --profile sign-in down --volumes --timeout 60 >/dev/null 2>&1 || :
        rm -rf "$PLACE"
    fi
    exit "$code"
}

find_engine() {
    for engine in ${ENGINE:-docker podman}; do
        command -v "$engine" >/dev/null 2>&1 || continue
        "$engine" info >/dev/null 2>&1 || continue
        if "$engine" compose version >/dev/null 2>&1; then
            COMPOSE="$engine compose"
            return
        fi
        if command -v "$engine-compose" >/dev/null 2>&1; then
            COMPOSE=$engine-compose
            return
        fi
    done
    return 1
}

# compose FOLDER ARGUMENT...
compose() {
    folder=$1
    shift
    # shellcheck disable=SC2086  # two words
    (cd "$PLACE/$folder" && $COMPOSE --project-name bartserve-trial "$@")
}

# call PATH [CURL ARGUMENT...]: the answer, or fail
call() {
    path=$1
    shift
    curl --silent --show-error --fail-with-body --max-time 600 --header "Authorization: Bearer $KEY" "$@" "$AT$path"
}

# field NAME: the first text of that name in a JSON document
field() { grep -o "\"$1\": *\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

# build FOLDER [ARGUMENT...]: the image that three services share, once
build() {
    say ".. build $*"
    folder=$1
    shift
    compose "$folder" build "$@" api >&2 || fail "the image of $folder can't be built"
}

# start FOLDER: start a revision, and wait for the proxy
start() {
    say ".. start $1"
    compose "$1" up --no-build --detach >&2 || fail "$COMPOSE doesn't start the stack of $1"
    for _ in $(seq 120); do
        ! curl --silent --fail --output /dev/null "$AT/health/ready" || return 0
        sleep 5
    done
    compose "$1" ps >&2
    fail "the service of $1 is not ready after ten minutes"
}

# send PATH JSON: as call; curl before 7.82 has no --json
send() { call "$1" --header "Content-Type: application/json" --data "$2"; }

# The prediction is read whole before it is compared: two that failed are alike too.
predict() {
    answer=$(send /models/trial/predict '{"rows": [{"x": 0.5, "kind": "b"}], "level": [0.9]}') || fail "no prediction: $answer"
    printf '%s\n' "$answer"
}

# kept: a line is an answer; whatever the first says must be in the second, which may say more
KEPT='
import json, sys

def kept(old, new):
    if isinstance(old, dict):
        return isinstance(new, dict) and all(name in new and kept(old[name], new[name]) for name in old)
    if isinstance(old, list):
        return isinstance(new, list) and len(old) == len(new) and all(map(kept, old, new))
    return old == new

old, new = map(json.loads, sys.stdin)
differ = [name for name in old if name != "model_id" and not kept(old[name], new.get(name))]
sys.exit(", ".join(f"{name}: {old[name]} and {new.get(name)}" for name in differ) or None)
'

same() {
    now=$(predict) || exit 1
    printf '%s\n' "$BEFORE" "$now" | compose new exec -T api python -c "$KEPT" >&2 || fail "predictions differ after $1"
    say "held: predictions after $1"
}

fit() {
    {
        echo x,kind,y
        seq 120 | awk '{ printf "%g,%s,%g\n", $1 / 100, ($1 % 2) ? "a" : "b", $1 / 50 + ($1 % 7) / 10 }'
    } >"$PLACE/rows.csv"
    dataset=$(call "/datasets?name=trial" --header "Content-Type: text/csv" --data-binary "@$PLACE/rows.csv" | field id)
    body="{\"dataset_id\": \"$dataset\", \"target\": \"y\", \"name\": \"trial\", \"num_draws\": 200}"
    accepted=$(send /models "$body") || fail "the fit was refused: $accepted"
    for _ in $(seq 120); do
        state=$(call /models/trial | field state)
        case $state in
        succeeded) return 0 ;;
        failed | cancelled) fail "the fit is $state" ;;
        esac
        sleep 5
    done
    fail "the fit hasn't ended in ten minutes"
}

dump_and_restore() {
    compose new exec -T postgres pg_dump --username bartserve --format custom bartserve >"$PLACE/bartserve.dump"
    compose new stop proxy api worker >&2
    compose new exec -T postgres dropdb --username bartserve --force --if-exists bartserve
    compose new exec -T postgres createdb --username bartserve bartserve
    compose new exec -T postgres pg_restore --username bartserve --dbname bartserve --exit-on-error <"$PLACE/bartserve.dump"
    start new
    same "a dump and its restore"
}

sign_in() {
    if [ -z "${TRIAL_ISSUER:-}" ] || [ -z "${TRIAL_CLIENT_ID:-}" ] || [ -z "${TRIAL_CLIENT_SECRET:-}" ]; then
        not_tried "the sign-in: it needs a provider, TRIAL_ISSUER, TRIAL_CLIENT_ID and TRIAL_CLIENT_SECRET"
        return 0
    fi
    printf %s "$TRIAL_CLIENT_SECRET" >"$PLACE/new/secrets/oidc_client_secret"
    cat >"$PLACE/new/docker-compose.override.yml" <<OVERRIDE
services:
  api:
    environment: {BARTSERVE_OIDC_ISSUER: "$TRIAL_ISSUER", BARTSERVE_OIDC_AUDIENCE: "$TRIAL_CLIENT_ID"}
  sign-in:
    environment:
      OAUTH2_PROXY_OIDC_ISSUER_URL: "$TRIAL_ISSUER"
      OAUTH2_PROXY_CLIENT_ID: "$TRIAL_CLIENT_ID"
      OAUTH2_PROXY_REDIRECT_URL: http://127.0.0.1:4180/oauth2/callback
      OAUTH2_PROXY_COOKIE_SECURE: "false"
OVERRIDE
    compose new --profile sign-in up --no-build --detach >&2
    for _ in $(seq 60); do
        ! curl --silent --fail --output /dev/null http://127.0.0.1:4180/ping || break
        sleep 2
    done
    status() { curl --silent --output /dev/null --write-out '%{http_code}' "http://127.0.0.1:4180$1"; }
    [ "$(status /)" = 302 ] || fail "a browser that isn't signed in is not led to the provider"
    [ "$(status /models)" = 401 ] || fail "a program without a token does not get 401 from the sign-in"
    say "held: the sign-in leads browsers to the provider, and programs get 401"
    not_tried "the end of a sign-in: open http://127.0.0.1:4180 with a browser"
}

extras() {
    build new --build-arg EXTRAS=mlflow
    compose new run --rm --no-deps worker python -c 'import mlflow' >&2 || fail "the image of EXTRAS=mlflow has no MLflow"
    say "held: an image with an extra"
}

trap leave EXIT
trap 'exit 130' INT TERM

for tool in curl git; do
    command -v "$tool" >/dev/null || { not_tried "anything: $tool is not on this machine"; finish; }
done
find_engine || { not_tried "anything: neither docker nor podman answers here, or it has no compose"; finish; }
if curl --silent --output /dev/null --max-time 5 "$AT"; then
    not_tried "anything: something already listens on $AT"
    finish
fi
say ".. with $COMPOSE"
PLACE=$(mktemp -d)
mkdir "$PLACE/new"
(cd "$ROOT" && git ls-files -z | tar --create --null --files-from -) | tar --extract --directory "$PLACE/new"
make --directory "$PLACE/new" secrets >/dev/null
: >"$PLACE/new/secrets/oidc_client_secret"

FROM=${1:-$(git -C "$ROOT" describe --tags --abbrev=0 2>/dev/null || :)}
FIRST=new
if [ -z "$FROM" ]; then
    not_tried "an upgrade: this repository has no tag, so name an older revision"
elif ! git -C "$ROOT" cat-file -e "$FROM^{commit}" 2>/dev/null; then
    not_tried "an upgrade: $FROM is not in this repository"
else
    FIRST=old
    mkdir "$PLACE/old"
    git -C "$ROOT" archive "$FROM" | tar --extract --directory "$PLACE/old"
    cp -r "$PLACE/new/secrets" "$PLACE/old/"
fi

# Podman names no owner of a tmpfs by number; U gives it to the container's user.
case $COMPOSE in podman*) sed -i '/tmpfs:/s/uid=[0-9]*,gid=[0-9]*/U/g' "$PLACE"/*/docker-compose.yml ;; esac

build "$FIRST"
start "$FIRST"
KEY=$(compose "$FIRST" exec -T api bartserve keys create --name trial --owner trial | grep -o 'bart_[A-Za-z0-9_-]*' | head -n 1)
[ -n "$KEY" ] || fail "no key was made"
fit
BEFORE=$(predict)
say "held: a fit and its predictions"
if [ "$FIRST" = old ]; then
    build new
    compose old stop worker >&2
    start new
    same "the upgrade from $FROM"
fi
compose new up --no-build --detach --scale worker=2 >&2
compose new restart redis >&2
same "a second worker and a restart of Redis"
dump_and_restore
sign_in
extras
finish

"""`bartserve webhooks`: addresses that are told of events."""

from typing import Annotated

import typer

from app.cli.common import AsJson, DataDir, print_json
from app.cli.embedded import asking
from app.cli.fit_predict import Url
from app.cli.output import ago, err, make_table, print_table

KEEP = "Keep it: it is not shown again. Receivers check signatures with it."

app = typer.Typer(
    no_args_is_help=True,
    help="""Manage webhooks: URLs that are told when fits, predictions and studies end, and of alarms.

\b
Examples
  bartserve webhooks add https://hooks.example/bart
  bartserve webhooks add https://hooks.example/bart --event outcomes.alarm --model cars
  bartserve webhooks list
  bartserve webhooks test ID
  bartserve webhooks log ID
  bartserve webhooks remove ID
""",
)
WebhookId = Annotated[str, typer.Argument(metavar="ID", help="The webhook's id.")]


@app.command("add")
def add_webhook(
    address: Annotated[str, typer.Argument(metavar="ADDRESS", help="The URL that is told, https://.")],
    event: Annotated[
        list[str] | None, typer.Option(help="A kind of event, such as fit.ended; repeatable. Default: all.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Only events of this model, by its id, or of all models of a name.")
    ] = None,
    url: Url = None,
    data_dir: DataDir = None,
) -> None:
    """Add a webhook and show its secret once."""
    with asking(url, data_dir, err.print) as client:
        made = client.add_webhook(address, events=event or None, model=model)
    _show(made["id"], made["secret"])


@app.command("list")
def list_webhooks(as_json: AsJson = False, url: Url = None, data_dir: DataDir = None) -> None:
    """List the webhooks: id, URL, events, model."""
    with asking(url, data_dir, err.print) as client:
        webhooks = list(client.webhooks())
    if as_json:
        print_json(webhooks)
        return
    table = make_table("id", "url", "events", "model")
    for each in webhooks:
        table.add_row(each["id"], each["url"], ",".join(each["events"]), each["model"] or "any")
    print_table(table, "There are no webhooks.")


@app.command("remove")
def remove_webhook(webhook: WebhookId, url: Url = None, data_dir: DataDir = None) -> None:
    """Remove a webhook with its deliveries."""
    with asking(url, data_dir, err.print) as client:
        client.remove_webhook(webhook)
    typer.echo(f"Removed: {webhook}.")


@app.command("rotate")
def rotate_webhook(webhook: WebhookId, url: Url = None, data_dir: DataDir = None) -> None:
    """Make a new secret and show it once; for another day the former one signs too."""
    with asking(url, data_dir, err.print) as client:
        made = client.rotate_webhook(webhook)
    _show(made["id"], made["secret"])


@app.command("test")
def send_test(webhook: WebhookId, url: Url = None, data_dir: DataDir = None) -> None:
    """Send a test."""
    with asking(url, data_dir, err.print) as client:
        delivery = client.test_webhook(webhook)
    typer.echo(f"{delivery['id']} will be sent: bartserve webhooks log {webhook}")


@app.command("log")
def log_of_webhook(
    webhook: WebhookId, as_json: AsJson = False, url: Url = None, data_dir: DataDir = None
) -> None:
    """List what a webhook was told, newest first, and what came of it."""
    with asking(url, data_dir, err.print) as client:
        deliveries = list(client.deliveries(webhook))
    if as_json:
        print_json(deliveries)
        return
    table = make_table("id", "event", "state", "attempts", "made", "why not")
    for each in deliveries:
        state = "dead letter" if each["state"] == "failed" else each["state"]
        attempts = str(each["attempts"])
        table.add_row(each["id"], each["kind"], state, attempts, ago(each["created_at"]), each["told"] or "")
    print_table(table, "It was told nothing yet.")


def _show(webhook: str, secret: str) -> None:
    typer.echo(secret)
    typer.echo(f"{KEEP} Its id is {webhook}.", err=True)

"""Calls a server with clients of Google's, unchanged, and prints what they return as lines of JSON."""

import json
import sys

from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import secretmanager_v1
from google.cloud.firestore_v1.services.firestore import FirestoreClient
from google.cloud.firestore_v1.services.firestore.transports import FirestoreRestTransport
from google.cloud.secretmanager_v1.services.secret_manager_service.transports import SecretManagerServiceRestTransport

options = {"host": sys.argv[1], "url_scheme": "http", "credentials": AnonymousCredentials()}
secrets = secretmanager_v1.SecretManagerServiceClient(transport=SecretManagerServiceRestTransport(**options))
firestore = FirestoreClient(transport=FirestoreRestTransport(**options))

parent = "projects/p"


def show(step, **values):
    print(json.dumps({"step": step, **values}), flush=True)


def show_error(step, call):
    try:
        call()
    except exceptions.GoogleAPICallError as error:
        show(
            step,
            exception=type(error).__name__,
            code=error.code,
            message=error.message.split(": ", 1)[1],
            reason=error.reason,
            metadata=error.metadata,
            details=error.details,
        )


automatic = {"replication": {"automatic": {}}}
for name in ["a", "b", "c", "d", "e"]:
    created = secrets.create_secret(
        parent=parent, secret_id=name, secret={**automatic, "labels": {"team": name, "__proto__": "x"}}
    )
show("create", name=created.name, labels=dict(created.labels), automatic="automatic" in created.replication)

pager = secrets.list_secrets(request={"parent": parent, "page_size": 2})
pages = [[secret.name for secret in page.secrets] for page in pager.pages]
show("list", pages=pages)

read = secrets.get_secret(name=f"{parent}/secrets/a")
show("get", name=read.name, year=read.create_time.year, version_aliases=dict(read.version_aliases))

updated = secrets.update_secret(
    secret={"name": f"{parent}/secrets/a", "labels": {"team": "z"}, "etag": "ignored"},
    update_mask={"paths": ["labels", "version_aliases"]},
)
show("update with a mask", labels=dict(updated.labels), etag=updated.etag)
updated = secrets.update_secret(
    request={"secret": {"name": f"{parent}/secrets/a", "version_aliases": {"last": 2**53 + 1}, "etag": "e"}}
)
aliases = {name: str(number) for name, number in updated.version_aliases.items()}
show("update without a mask", labels=dict(updated.labels), aliases=aliases, etag=updated.etag)

data = bytes(range(256))
version = secrets.add_secret_version(parent=f"{parent}/secrets/a", payload={"data": data, "data_crc32c": 2**40})
is_enum = isinstance(version.state, secretmanager_v1.SecretVersion.State)
show("add a version", name=version.name, state=version.state.name, is_enum=is_enum)
payload = secrets.access_secret_version(name=version.name).payload
show("access it", equal=payload.data == data, crc32c=str(payload.data_crc32c))
disabled = secrets.disable_secret_version(name=version.name)
show("disable it", state=disabled.state.name)
show("delete", result=secrets.delete_secret(name=f"{parent}/secrets/e"))

show_error("no secret", lambda: secrets.get_secret(name=f"{parent}/secrets/none"))
show_error("a secret twice", lambda: secrets.create_secret(parent=parent, secret_id="a", secret=automatic))
show_error("a disabled version", lambda: secrets.access_secret_version(name=version.name))
show_error("no permission", lambda: secrets.get_secret(name="projects/other/secrets/a"))
show_error("not implemented", lambda: secrets.enable_secret_version(name=version.name))
show_error("an invalid page", lambda: list(secrets.list_secrets(request={"parent": parent, "page_token": "x"})))

documents = "projects/p/databases/d/documents"
query = {"from_": [{"collection_id": "books"}], "limit": 3}
found = [
    [response.document.name, str(response.document.fields["pages"].integer_value), response.skipped_results]
    for response in firestore.run_query(request={"parent": f"{documents}/shelves/s", "structured_query": query})
]
show("stream", documents=found)
none = firestore.run_query(request={"parent": documents, "structured_query": {"limit": 0}})
show("an empty stream", documents=list(none))
other = {"parent": "projects/p/databases/none/documents"}
show_error("a stream that fails", lambda: firestore.run_query(request=other))
try:
    list(firestore.run_query(request={"parent": "projects/p/databases/broken/documents", "structured_query": query}))
except Exception as error:
    show("a stream that fails later", exception=type(error).__name__)
listed = firestore.list_documents(request={"parent": f"{documents}/shelves/s", "collection_id": "books"})
show("list documents", names=[document.name for document in listed])

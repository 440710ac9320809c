// Shows what has been deployed, and undoes the last deployment, with the generated client over Connect.
import { timestampDate } from "@bufbuild/protobuf/wkt";
import { ConnectError, createClient } from "@connectrpc/connect";
import { createConnectTransport } from "@connectrpc/connect-web";
import { AuthService, FlowsService, retryInterceptor, RevisionsService, SettingsService } from "@flowgate/client";

const login = document.querySelector("#login");
const main = document.querySelector("main");
const status = document.querySelector("#status");
const undo = document.querySelector("#undo");
let session;

login.addEventListener("submit", (event) => {
  event.preventDefault();
  const { server, username, password } = Object.fromEntries(new FormData(login));
  void report(async () => {
    session = await connect(server, username, password);
    await show();
  });
});
// Undoes what the page shows: the service refuses if someone else has deployed since.
undo.addEventListener("click", () => {
  void report(async () => {
    await session.flows.undoFlows({ rev: undo.dataset.rev, message: "undone in the browser" });
    await show();
  });
});

/** Clients of the server, with a token if there is a user. The token is kept in this page's memory only. */
async function connect(baseUrl, username, password) {
  let token;
  const authenticate = (next) => (request) => {
    if (token !== undefined) {
      request.header.set("Authorization", `Bearer ${token}`);
    }
    return next(request);
  };
  const transport = createConnectTransport({ baseUrl, interceptors: [authenticate, retryInterceptor()] });
  if (username !== "") {
    const auth = createClient(AuthService, transport);
    const issued = await auth.issueToken({ clientId: "service-admin", grantType: "password", username, password });
    token = issued.accessToken;
  }
  return {
    flows: createClient(FlowsService, transport),
    revisions: createClient(RevisionsService, transport),
    settings: createClient(SettingsService, transport),
  };
}

async function show() {
  const [{ revisions }, { version, runtime }] = await Promise.all([
    session.revisions.listRevisions({ pageSize: 20 }),
    session.settings.getSettings({}),
  ]);
  document.querySelector("#revisions").replaceChildren(...revisions.map(row));
  undo.dataset.rev = revisions.find(({ active }) => active).rev;
  main.hidden = false;
  status.value = runtime.message ?? `Flowgate ${version}, ${runtime.name} ${runtime.version}`;
}

function row({ createTime, user, message, nodeCount, active }) {
  const element = document.createElement("tr");
  // As text: anyone who deploys can choose the message.
  for (const text of [timestampDate(createTime).toLocaleString(), user, message, nodeCount, active ? "active" : ""]) {
    element.insertCell().textContent = text;
  }
  return element;
}

/** Shows the error, if it fails, as the service has described it. */
async function report(action) {
  status.value = "…";
  try {
    await action();
  } catch (error) {
    status.value = ConnectError.from(error).rawMessage;
  }
}

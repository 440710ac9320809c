// Starts Swagger UI for openapi.json. URLs are relative, so that the page also works below a path prefix of a proxy.
import { followVariant } from "./follow-variant.js";
import { guardFlows } from "./guard-flows.js";
import { listContents } from "./contents.js";
import { resolveParts } from "./resolve-parts.js";

const description = JSON.parse(await (await fetch("openapi.json")).text(), showAlternatives);
description.servers = [{ url: new URL(".", location.href).href }];
description.components.securitySchemes.login.flows.password.tokenUrl = new URL("auth/token", location.href).href;

const dark = matchMedia("(prefers-color-scheme: dark)");
const setColors = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", setColors);
setColors();

const ui = SwaggerUIBundle({
  spec: description,
  dom_id: "#api",
  deepLinking: true,
  // Would send the URL of this service to a third party.
  validatorUrl: null,
  displayRequestDuration: true,
  // A session is valid for changes with this header only, which pages of other origins can't send.
  requestInterceptor: (request) => {
    const isOwn = new URL(request.url, location.href).origin === location.origin;
    if (isOwn && document.querySelector("#sign-in") !== null) {
      request.headers["X-CSRF-Protection"] = "1";
    }
    return request;
  },
  defaultModelsExpandDepth: 0,
  plugins: [resolveParts, followVariant, guardFlows(description), omitEmptyScope, focusLogin],
  onComplete: () => ui.initOAuth({ clientId: "service-admin" }),
});

document.querySelector("#contents").append(
  ...listContents(description, (tag, operationId) => {
    ui.layoutActions.show(["operations-tag", tag], true);
    ui.layoutActions.show(["operations", tag, operationId], true);
    document.getElementById(`operations-${tag}-${operationId}`).scrollIntoView();
  }),
);

/** The alternatives of a body are an extension, since not all code generators understand them. */
function showAlternatives(_key, value) {
  const { "x-anyOf": anyOf } = value ?? {};
  return anyOf === undefined ? value : { anyOf };
}

/** Without a selected scope, requests a token without `scope`: an empty one is invalid (RFC 6749, section 3.3). */
function omitEmptyScope() {
  const authorizeRequest = (authorize) => (request) => {
    const body = new URLSearchParams(request.body);
    if (body.get("scope") === "") {
      body.delete("scope");
    }
    return authorize({ ...request, body: body.toString() });
  };
  return { statePlugins: { auth: { wrapActions: { authorizeRequest } } } };
}

/** Leaves the focus to the first input of the dialog, the username; otherwise that of a token takes it. */
function focusLogin() {
  const Input =
    (Original, { React }) =>
    (properties) =>
      React.createElement(Original, { ...properties, autoFocus: false });
  return { wrapComponents: { Input } };
}

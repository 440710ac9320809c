import { createHash } from "node:crypto";
import type { GatewayResponse } from "@flowgate/gateway";
import { signInPaths } from "../../auth/sessions.ts";
import { type NewSession, type SignIn, transactionSeconds } from "../../auth/sign-in.ts";
import { FlowgateError, type Reason } from "../../errors.ts";
import { errorResponse } from "../http/error-response.ts";
import type { RequestContext, RequestRoute } from "../pipeline/request-context.ts";
import { createEndpoint } from "../pipeline/router.ts";
import { readCookie, type SessionCookies } from "../pipeline/session-cookie.ts";

export type SignInEndpointOptions = {
  readonly signIn: SignIn;
  readonly cookies: SessionCookies;
  /** Called with an error that a browser can do nothing about. */
  readonly onError: (error: unknown, request: RequestContext) => void;
};

type Handler = (request: RequestContext) => GatewayResponse | Promise<GatewayResponse>;

/**
 * The pages by which browsers sign in and out, and the document that describes this to other clients (RFC 9728). GET `/sign-in` offers
 * what is configured and, with `issuer`, sends the browser to that issuer; POST is for a user name and password.
 */
export function createSignInEndpoints(options: SignInEndpointOptions): [string, RequestRoute][] {
  const { signIn } = options;
  const page = (path: string, served: Readonly<Record<string, Handler>>): [string, RequestRoute] => {
    // Over HTTP/2 a method can have any name, also that of a property which all objects have.
    const handlers = new Map(Object.entries(served));
    const allowed = [...handlers.keys()].join(", ");
    const serve: RequestRoute["serve"] = async (request) => {
      const handle = handlers.get(request.httpMethod);
      if (handle === undefined) {
        return errorResponse(405, `${path} supports only ${allowed}`, { headers: { allow: allowed } });
      }
      try {
        return await handle(request);
      } catch (error) {
        return showError(options, error, request);
      }
    };
    return [path, { kind: "endpoint", method: undefined, isExempt: false, serve }];
  };
  return [
    page(signInPaths.signIn, {
      GET: (request) => begin(options, request),
      POST: (request) => signInWithPassword(options, request),
    }),
    page(signInPaths.callback, { GET: (request) => complete(options, request) }),
    page(signInPaths.signOut, { GET: () => showSignOut(), POST: (request) => signOut(options, request) }),
    createEndpoint(signInPaths.protectedResource, false, () => ({
      status: 200,
      headers: { "content-type": "application/json", "cache-control": "no-cache" },
      body: JSON.stringify(signIn.protectedResource()),
    })),
  ];
}

async function begin({ signIn, cookies }: SignInEndpointOptions, request: RequestContext): Promise<GatewayResponse> {
  const parameters = parametersOf(request);
  const returnTo = parameters.get("return") ?? undefined;
  const issuer = parameters.get("issuer");
  // Also with a single issuer, or a sign-out would end in another sign-in.
  if (issuer === null) {
    return showSignIn(signIn, returnTo);
  }
  const { location, transaction } = await signIn.begin(issuer, returnTo);
  const cookie = cookies.setTransaction(transaction, transactionSeconds);
  return { status: 302, headers: { ...pageHeaders(), location, "set-cookie": cookie }, body: undefined };
}

async function complete({ signIn, cookies }: SignInEndpointOptions, request: RequestContext): Promise<GatewayResponse> {
  const kept = readCookie(request.headers.cookie, cookies.transaction);
  const previous = readCookie(request.headers.cookie, cookies.session);
  const { session, returnTo } = await signIn.complete(request.target, kept, previous, originOf(request));
  return showSignedIn(signIn, cookies, session, returnTo);
}

async function signInWithPassword(
  { signIn, cookies }: SignInEndpointOptions,
  request: RequestContext,
): Promise<GatewayResponse> {
  assertOwnForm(cookies, request);
  const form = await readForm(request);
  const returnTo = form.get("return") ?? undefined;
  const login = { username: form.get("username") ?? "", password: form.get("password") ?? "" };
  const previous = readCookie(request.headers.cookie, cookies.session);
  try {
    const client = { origin: originOf(request), kind: await request.clientKind() };
    return showSignedIn(signIn, cookies, await signIn.withPassword(login, previous, client), returnTo);
  } catch (error) {
    if (error instanceof FlowgateError && error.reason === "invalid_grant") {
      return showSignIn(signIn, returnTo, error.message);
    }
    throw error;
  }
}

async function signOut({ signIn, cookies }: SignInEndpointOptions, request: RequestContext): Promise<GatewayResponse> {
  assertOwnForm(cookies, request);
  const url = await signIn.end(readCookie(request.headers.cookie, cookies.session), originOf(request));
  const next = url ?? signIn.origin + signInPaths.signIn;
  const response = showPage(200, "Signed out", `<p>You are signed out.</p>${continueTo(next)}`, refreshTo(next));
  response.headers["set-cookie"] = cookies.clearSession();
  return response;
}

/** Pages of other origins must neither sign a browser in as someone else, nor sign it out. Browsers send Origin with each POST. */
function assertOwnForm(cookies: SessionCookies, { headers }: RequestContext): void {
  if (cookies.isForeign(headers) || (headers.origin ?? headers["sec-fetch-site"]) === undefined) {
    throw new FlowgateError("foreign_origin", `This form can be sent by pages of ${cookies.origin} only.`);
  }
}

const maxFormBytes = 16 * 1024;

async function readForm(request: RequestContext): Promise<URLSearchParams> {
  if (!/^application\/x-www-form-urlencoded\b/i.test(request.headers["content-type"] ?? "")) {
    throw new FlowgateError("invalid_argument", "The body must be a form: application/x-www-form-urlencoded.");
  }
  return new URLSearchParams(Buffer.from(await request.readBody(maxFormBytes)).toString());
}

function parametersOf({ target }: RequestContext): URLSearchParams {
  const query = target.indexOf("?");
  return new URLSearchParams(query === -1 ? "" : target.slice(query));
}

function originOf({ address, requestId }: RequestContext) {
  return { by: undefined, address, protocol: "rest", requestId };
}

/**
 * Sends the browser on by the page, not by a redirect: a session cookie is not sent with a navigation that another site has begun, which
 * a redirect would continue.
 */
function showSignedIn(
  signIn: SignIn,
  cookies: SessionCookies,
  { value, maxAgeSeconds }: NewSession,
  returnTo: string | undefined,
): GatewayResponse {
  const url = signIn.returnUrl(returnTo);
  const response = showPage(200, "Signed in", `<p>You are signed in.</p>${continueTo(url)}`, refreshTo(url));
  response.headers["set-cookie"] = [cookies.setSession(value, maxAgeSeconds), cookies.clearTransaction()];
  return response;
}

function showSignIn({ issuers, takesPasswords }: SignIn, returnTo: string | undefined, problem = ""): GatewayResponse {
  const query = returnTo === undefined ? "" : `&return=${encodeURIComponent(returnTo)}`;
  const links = issuers.map(
    (name) => `<a href="${signInPaths.signIn}?issuer=${name}${escapeHtml(query)}">Sign in with ${name}</a>`,
  );
  const form = `<form method="post" action="${signInPaths.signIn}">
<input type="hidden" name="return" value="${escapeHtml(returnTo ?? "")}">
<label>Username <input name="username" autocomplete="username" required></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button>
</form>`;
  const alert = problem === "" ? "" : `<p role="alert">${escapeHtml(problem)}</p>`;
  const choices = [...links, ...(takesPasswords ? [form] : [])].join("\n");
  return showPage(problem === "" ? 200 : 403, "Sign in", `${alert}${choices || "<p>No one can sign in here.</p>"}`);
}

function showSignOut(): GatewayResponse {
  return showPage(
    200,
    "Sign out",
    `<form method="post" action="${signInPaths.signOut}"><button>Sign out</button></form>`,
  );
}

/** Errors of the sign-in itself, and their statuses. All others are failures of this service. */
const statuses: Partial<Record<Reason, number>> = {
  invalid_token: 403,
  auth_disabled: 404,
  not_found: 404,
  invalid_argument: 415,
  foreign_origin: 403,
  temporarily_unavailable: 429,
  limit_exceeded: 429,
  unavailable: 503,
  overloaded: 503,
};

function showError(
  { cookies, signIn, onError }: SignInEndpointOptions,
  error: unknown,
  request: RequestContext,
): GatewayResponse {
  const known = error instanceof FlowgateError ? statuses[error.reason] : undefined;
  // Of a body that is too long, or not received.
  const { status: rejected } = Object(error) as { status?: unknown };
  if (known === undefined && typeof rejected !== "number") {
    onError(error, request);
  }
  const status = known ?? (typeof rejected === "number" ? rejected : 500);
  const text = known === undefined ? "The request has failed." : (error as FlowgateError).message;
  const again = `<a href="${escapeHtml(signIn.origin + signInPaths.signIn)}">Start again</a>`;
  const response = showPage(status, "Not signed in", `<p role="alert">${escapeHtml(text)}</p>${again}`);
  if (error instanceof FlowgateError && error.headers["retry-after"] !== undefined) {
    response.headers["retry-after"] = error.headers["retry-after"];
  }
  if (request.path === signInPaths.callback) {
    response.headers["set-cookie"] = cookies.clearTransaction();
  }
  return response;
}

const style = `body { max-width: 22rem; margin: 15vh auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; }
form, label { display: grid; gap: 0.5rem; }
form { gap: 1rem; margin-top: 1rem; }
input, button { font: inherit; padding: 0.5rem; }
a { display: block; padding: 0.5rem 0; }`;

const styleHash = createHash("sha256").update(style).digest("base64");

/** The referrer is not left out completely, or browsers would send `Origin: null` with a form. */
function pageHeaders(): Record<string, string> {
  return {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": `default-src 'none'; style-src 'sha256-${styleHash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
  };
}

/** `head` and `body` are HTML. */
function showPage(status: number, title: string, body: string, head = ""): GatewayResponse {
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Flowgate</title>
<style>${style}</style>
${head}</head>
<body>
<h1>${title}</h1>
${body}
</body>
</html>
`;
  return { status, headers: pageHeaders(), body: page };
}

function refreshTo(url: string): string {
  return `<meta http-equiv="refresh" content="0; url=${escapeHtml(url)}">\n`;
}

function continueTo(url: string): string {
  return `<a href="${escapeHtml(url)}">Continue</a>`;
}

function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

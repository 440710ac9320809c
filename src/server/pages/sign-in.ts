import fastifyCookie from "@fastify/cookie";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { signInPaths } from "../../auth/sign-in-paths.ts";
import { type Destination, type SignedIn, type SignIn, transactionSeconds } from "../../auth/sign-in.ts";
import { isConfidentialUrl } from "@flowgate/base/addresses";
import { readCookie, readCookies } from "@flowgate/base/cookies";
import { FlowgateError, type Reason } from "@flowgate/flows/errors";
import { headersOf } from "../pipeline/errors.ts";
import type { RequestContext } from "../pipeline/request-context.ts";
import type { FindCookies, SessionCookies } from "../pipeline/session-cookie.ts";
import { errorResponse } from "../http/error-response.ts";
import { contextOf } from "./forward.ts";
import { continueTo, escapeHtml, refreshTo, sendError, sendPage } from "./html-page.ts";

export type SignInPages = {
  readonly signIn: SignIn;
  readonly findCookies: FindCookies;
  /** Called with an error that a browser can do nothing about. */
  readonly onError: (error: unknown, request: RequestContext) => void;
};

/**
 * The pages by which browsers sign in and out, and the document that describes this to other clients (RFC 9728). GET
 * `/sign-in` offers the configured methods and, with `issuer`, sends the browser to that issuer; POST is for a user
 * name and password.
 */
export async function addSignIn(app: FastifyInstance, pages: SignInPages): Promise<void> {
  const { signIn } = pages;
  // It writes cookies. `readCookie` reads them, as it does for calls.
  await app.register(fastifyCookie, { hook: false });
  app.addContentTypeParser("application/x-www-form-urlencoded", async (request: FastifyRequest) => {
    const body = await contextOf(request).readBody(maxFormBytes);
    return new URLSearchParams(Buffer.from(body).toString());
  });
  app.addContentTypeParser("*", async () => {
    throw new FlowgateError("invalid_argument", "The body must be a form: application/x-www-form-urlencoded.");
  });
  app.setErrorHandler((error, request, reply) => showError(pages, error, request, reply));
  const ownForm = { onRequest: async (request: FastifyRequest) => assertOwnForm(request) };
  app.get(signInPaths.signIn, (request, reply) => begin(pages, request, reply));
  app.post(signInPaths.signIn, ownForm, (request, reply) => signInWithPassword(pages, request, reply));
  app.get(`${signInPaths.callback}:issuer`, (request, reply) => complete(pages, request, reply));
  app.get(signInPaths.signOut, (_, reply) => sendPage(reply, 200, "Sign out", renderSignOut()));
  app.post(signInPaths.signOut, ownForm, (request, reply) => signOut(pages, request, reply));
  app.get(signInPaths.protectedResource, (_, reply) => {
    const resource = signIn.protectedResource();
    return resource === undefined
      ? sendError(reply, errorResponse(404, "the URL of this service is not configured"))
      : reply.header("cache-control", "no-cache").type("application/json").send(JSON.stringify(resource));
  });
}

async function begin({ signIn }: SignInPages, request: FastifyRequest, reply: FastifyReply) {
  const cookies = cookiesOf(request);
  const parameters = parametersOf(request);
  const destination = destinationOf(parameters);
  const { issuers, takesPasswords } = signIn;
  const [only] = issuers.length === 1 && !takesPasswords && destination.editor !== undefined ? issuers : [];
  const issuer = parameters.get("issuer") ?? only;
  // Also with a single issuer, or a sign-out would end in another sign-in. The editor has a button of its own.
  if (issuer === undefined) {
    return sendPage(reply, 200, "Sign in", renderSignIn(signIn, destination));
  }
  const previous = readCookie(request.headers.cookie, cookies.session);
  const { location, transaction } = await signIn.begin(issuer, { ...destination, previous });
  // The browser must send it when the provider sends it back.
  reply.setCookie(cookies.transaction, transaction, {
    ...cookies.attributes,
    sameSite: "lax",
    maxAge: transactionSeconds,
  });
  return reply.header("cache-control", "no-store").redirect(location);
}

async function complete({ signIn }: SignInPages, request: FastifyRequest, reply: FastifyReply) {
  const kept = readCookie(request.headers.cookie, cookiesOf(request).transaction);
  const { target } = contextOf(request);
  return showSignedIn(request, await signIn.complete(target, kept, clientOf(request)), reply);
}

async function signInWithPassword({ signIn }: SignInPages, request: FastifyRequest, reply: FastifyReply) {
  const form = formOf(request);
  const destination = destinationOf(form);
  const login = { username: form.get("username") ?? "", password: form.get("password") ?? "" };
  const previous = readCookie(request.headers.cookie, cookiesOf(request).session);
  try {
    const signedIn = await signIn.withPassword(login, { ...destination, previous }, clientOf(request));
    return showSignedIn(request, signedIn, reply);
  } catch (error) {
    if (error instanceof FlowgateError && error.reason === "invalid_grant") {
      return sendPage(reply, 403, "Sign in", renderSignIn(signIn, destination, error.message));
    }
    throw error;
  }
}

async function signOut({ signIn }: SignInPages, request: FastifyRequest, reply: FastifyReply) {
  const cookies = cookiesOf(request);
  const sessions = readCookies(request.headers.cookie, cookies.session);
  // Each is looked up in the store, for anyone who sends it.
  if (sessions.length > maxSessions) {
    throw new FlowgateError(
      "limit_exceeded",
      `The request has ${sessions.length} sessions, of which at most ${maxSessions} can end at once. Another program on this machine has set cookies for this site: delete them in the browser, and sign out again.`,
    );
  }
  const url = await signIn.end(sessions, originOf(request));
  const next = url ?? linkTo(signInPaths.signIn, request);
  reply.clearCookie(cookies.session, { ...cookies.attributes, sameSite: "strict" });
  return sendPage(reply, 200, "Signed out", `<p>You are signed out.</p>${continueTo(next)}`, refreshTo(next));
}

/** Pages of other origins must neither sign a browser in as someone else, nor sign it out. Browsers send Origin with each POST. */
function assertOwnForm(request: FastifyRequest): void {
  const cookies = cookiesOf(request);
  const { headers } = request;
  if (cookies.isForeign(headers) || (headers.origin ?? headers["sec-fetch-site"]) === undefined) {
    throw new FlowgateError("foreign_origin", `This form can be sent by pages of ${cookies.origin} only.`);
  }
}

function cookiesOf(request: FastifyRequest): SessionCookies {
  const { cookies } = contextOf(request);
  if (cookies === undefined) {
    throw new FlowgateError("misdirected_request", describeUnsafe(contextOf(request)));
  }
  return cookies;
}

function describeUnsafe(request: RequestContext): string {
  const origin = URL.parse(request.url())?.origin ?? "";
  return isConfidentialUrl(origin)
    ? `Sign in over https: a proxy has received this request from another address, and others could read the password on its way over http. If the browser is on the same machine as the service, and a container is between them, set adminAuth.signIn.url to ${origin}.`
    : "Sign in over https, or at localhost on the machine of the service: others could read the password here. If a proxy receives https, trustedProxies must name it, or adminAuth.signIn.url this address.";
}

const maxFormBytes = 16 * 1024;

/** The maximum number of sessions: a browser's own, and any planted by other programs. */
const maxSessions = 10;

function formOf({ body }: FastifyRequest): URLSearchParams {
  return body instanceof URLSearchParams ? body : new URLSearchParams();
}

function parametersOf(request: FastifyRequest): URLSearchParams {
  const { target } = contextOf(request);
  const query = target.indexOf("?");
  return new URLSearchParams(query === -1 ? "" : target.slice(query));
}

function destinationOf(parameters: URLSearchParams): Destination {
  return { returnTo: parameters.get("return") ?? undefined, editor: parameters.get("editor") ?? undefined };
}

function originOf(request: FastifyRequest) {
  const { address, requestId } = contextOf(request);
  return { by: undefined, address, protocol: "rest", requestId };
}

/** The choices of someone who signs in, as HTML. `problem` is why the last attempt has failed. */
function renderSignIn(
  { issuers, takesPasswords }: SignIn,
  { returnTo, editor }: Destination,
  problem?: string,
): string {
  const kept = Object.entries({ return: returnTo, editor }).flatMap(([name, value = ""]) =>
    value === "" ? [] : [[name, value] as const],
  );
  const query = kept.map(([name, value]) => `&${name}=${encodeURIComponent(value)}`).join("");
  const links = issuers.map(
    (name) => `<a href=".${signInPaths.signIn}?issuer=${name}${escapeHtml(query)}">Sign in with ${name}</a>`,
  );
  const hidden = kept.map(([name, value]) => `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`);
  const form = `<form method="post" action=".${signInPaths.signIn}">
${hidden.join("\n")}
<label>Username <input name="username" autocomplete="username" required></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button>
</form>`;
  const alert = problem === undefined ? "" : `<p role="alert">${escapeHtml(problem)}</p>`;
  const choices = [...links, ...(takesPasswords ? [form] : [])].join("\n");
  return `${alert}${choices || "<p>No one can sign in here: adminAuth has neither users nor an issuer with signIn.</p>"}`;
}

function renderSignOut(): string {
  return `<form method="post" action=".${signInPaths.signOut}"><button>Sign out</button></form>`;
}

function clientOf(request: FastifyRequest) {
  return { origin: originOf(request), kind: contextOf(request).clientKind };
}

/**
 * Sends the browser on by the page, not by a redirect: a session cookie is not sent with a navigation that another site has begun, which
 * a redirect would continue.
 */
function showSignedIn(request: FastifyRequest, { session, url }: SignedIn, reply: FastifyReply): FastifyReply {
  const cookies = cookiesOf(request);
  const next = session === undefined ? url : linkTo(url, request);
  if (session !== undefined) {
    const { value, maxAgeSeconds: maxAge } = session;
    // No other site can make a browser send it.
    reply.setCookie(cookies.session, value, { ...cookies.attributes, sameSite: "strict", maxAge });
  }
  reply.clearCookie(cookies.transaction, { ...cookies.attributes, sameSite: "lax" });
  return sendPage(reply, 200, "Signed in", `<p>You are signed in.</p>${continueTo(next)}`, refreshTo(next));
}

/** A link from the page of a request, relatively, so that it also works below a path prefix of a proxy. */
function linkTo(path: string, request: FastifyRequest): string {
  const levels = contextOf(request).path.split("/").length - 2;
  return `${levels === 0 ? "./" : "../".repeat(levels)}${path.slice(1)}`;
}

/** Errors of the sign-in itself, and their statuses. All others are failures of this service. */
const statuses: Partial<Record<Reason, number>> = {
  invalid_token: 403,
  insufficient_scope: 403,
  auth_disabled: 404,
  not_found: 404,
  invalid_argument: 415,
  foreign_origin: 403,
  misdirected_request: 421,
  temporarily_unavailable: 429,
  limit_exceeded: 429,
  unavailable: 503,
  overloaded: 503,
};

function showError(
  { onError }: SignInPages,
  error: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const known = error instanceof FlowgateError ? statuses[error.reason] : undefined;
  // Of a body that is too long, not received, or not a form.
  const { status: rejected, statusCode = rejected } = Object(error) as { status?: unknown; statusCode?: unknown };
  if (known === undefined && typeof statusCode !== "number") {
    onError(error, contextOf(request));
  }
  const status = known ?? (typeof statusCode === "number" ? statusCode : 500);
  const text = known === undefined ? "The request has failed." : (error as FlowgateError).message;
  // Not the challenge, which a page can't answer.
  const retryAfter = error instanceof FlowgateError ? headersOf(error)["retry-after"] : undefined;
  if (retryAfter !== undefined) {
    reply.header("retry-after", retryAfter);
  }
  const { cookies, path } = contextOf(request);
  if (cookies !== undefined && path.startsWith(signInPaths.callback)) {
    reply.clearCookie(cookies.transaction, { ...cookies.attributes, sameSite: "lax" });
  }
  const again = continueTo(linkTo(signInPaths.signIn, request), "Start again");
  const title = error instanceof FlowgateError && error.reason === "insufficient_scope" ? "No access" : "Not signed in";
  return sendPage(reply, status, title, `<p role="alert">${escapeHtml(text)}</p>${again}`);
}

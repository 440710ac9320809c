import { createHash } from "node:crypto";
import type { FastifyReply } from "fastify";
import { signInPaths } from "../../auth/sessions.ts";
import type { Destination, SignIn } from "../../auth/sign-in.ts";

/** The choices of someone who signs in, as HTML. `problem` is why the last attempt has failed. */
export function renderSignIn(
  { issuers, takesPasswords }: SignIn,
  { returnTo, editor }: Destination,
  problem?: string,
): string {
  const kept = Object.entries({ return: returnTo, editor }).flatMap(([name, value = ""]) =>
    value === "" ? [] : [[name, value] as const],
  );
  const query = kept.map(([name, value]) => `&${name}=${encodeURIComponent(value)}`).join("");
  const links = issuers.map(
    (name) => `<a href="${signInPaths.signIn}?issuer=${name}${escapeHtml(query)}">Sign in with ${name}</a>`,
  );
  const hidden = kept.map(([name, value]) => `<input type="hidden" name="${name}" value="${escapeHtml(value)}">`);
  const form = `<form method="post" action="${signInPaths.signIn}">
${hidden.join("\n")}
<label>Username <input name="username" autocomplete="username" required></label>
<label>Password <input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button>
</form>`;
  const alert = problem === undefined ? "" : `<p role="alert">${escapeHtml(problem)}</p>`;
  const choices = [...links, ...(takesPasswords ? [form] : [])].join("\n");
  return `${alert}${choices || "<p>No one can sign in here.</p>"}`;
}

export function renderSignOut(): string {
  return `<form method="post" action="${signInPaths.signOut}"><button>Sign out</button></form>`;
}

export function refreshTo(url: string): string {
  return `<meta http-equiv="refresh" content="0; url=${escapeHtml(url)}">\n`;
}

export function continueTo(url: string, text = "Continue"): string {
  return `<a href="${escapeHtml(url)}">${text}</a>`;
}

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const style = `body { max-width: 22rem; margin: 15vh auto; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.4rem; }
form, label { display: grid; gap: 0.5rem; }
form { gap: 1rem; margin-top: 1rem; }
input, button { font: inherit; padding: 0.5rem; }
a { display: block; padding: 0.5rem 0; }`;

const styleHash = createHash("sha256").update(style).digest("base64");

/** The referrer is not left out completely, or browsers would send `Origin: null` with a form. */
const headers = {
  "cache-control": "no-store",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${styleHash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  "x-frame-options": "DENY",
  "referrer-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
};

/** `head` and `body` are HTML. */
export function sendPage(reply: FastifyReply, status: number, title: string, body: string, head = ""): FastifyReply {
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
  return reply.status(status).headers(headers).type("text/html; charset=utf-8").send(page);
}

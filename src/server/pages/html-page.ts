import { createHash } from "node:crypto";
import type { FastifyReply } from "fastify";
import type { GatewayResponse } from "@flowgate/gateway";

export function refreshTo(url: string): string {
  return `<meta http-equiv="refresh" content="0; url=${escapeHtml(url)}">\n`;
}

export function continueTo(url: string, text = "Continue"): string {
  return `<a href="${escapeHtml(url)}">${text}</a>`;
}

export function escapeHtml(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

// The console's colours.
const style = `:root { color-scheme: light dark; --accent: light-dark(#1f5fd0, #7aa7ff); --border: light-dark(#858d9b, #707a8a); }
* { box-sizing: border-box; }
body { margin: 0; padding: 12vh 1rem 2rem; color: light-dark(#1b1f27, #e7e9ee); background: light-dark(#f4f6f9, #101216); font: 1rem/1.5 system-ui, sans-serif; }
main { max-width: 24rem; margin: 0 auto; padding: 1.5rem; border: 1px solid light-dark(#d9dde4, #2f3541); border-radius: 10px; background: light-dark(#ffffff, #171a20); }
header { max-width: 24rem; margin: 0 auto 1rem; font-weight: 600; }
h1 { margin: 0 0 1rem; font-size: 1.35rem; line-height: 1.25; }
form, label { display: grid; gap: 0.25rem; }
form { gap: 1rem; }
a + form { margin-top: 1rem; padding-top: 1rem; border-top: 1px solid light-dark(#d9dde4, #2f3541); }
input, button { min-height: 2.5rem; padding: 0.3rem 0.75rem; border: 1px solid var(--border); border-radius: 6px; color: inherit; background: light-dark(#ffffff, #171a20); font: inherit; }
button { border-color: var(--accent); color: light-dark(#ffffff, #0d1016); background: var(--accent); font-weight: 600; cursor: pointer; }
a { display: block; padding: 0.5rem 0; color: var(--accent); }
code { font: 0.9em ui-monospace, monospace; }
[role="alert"] { margin: 0 0 1rem; color: light-dark(#b91c3c, #ff8496); }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; }`;

const styleHash = createHash("sha256").update(style).digest("base64");

/** The referrer is not left out completely, or browsers would send `Origin: null` with a form. */
const headers = {
  "cache-control": "no-store",
  "content-security-policy": `default-src 'none'; style-src 'sha256-${styleHash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'`,
  "x-frame-options": "DENY",
  "referrer-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
};

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
<header>Flowgate</header>
<main>
<h1>${title}</h1>
${body}
</main>
</body>
</html>
`;
  return reply.status(status).headers(headers).type("text/html; charset=utf-8").send(page);
}

export function sendError(reply: FastifyReply, { status, headers, body }: GatewayResponse): FastifyReply {
  return reply.status(status).headers(headers).send(body);
}

/** Headers of all pages and their files, besides their own Content-Security-Policy. */
export const securityHeaders = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy":
    "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), microphone=(), payment=(), usb=()",
};

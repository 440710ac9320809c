/**
 * The Content-Security-Policy of the editor's page: it may load from and connect to only this listener, and `catalogueOrigin`, from which
 * it reads the list of modules that can be installed. Templates of nodes contain scripts and styles, which are inserted into the page.
 * Nothing may be compiled from text (`'unsafe-eval'`).
 */
export function editorPolicy(catalogueOrigin: string | undefined): string {
  return [
    "default-src 'none'",
    "script-src 'self' 'unsafe-inline'",
    "style-src 'self' 'unsafe-inline'",
    "img-src 'self' data: blob:",
    "font-src 'self' data:",
    "media-src 'self' data: blob:",
    `connect-src ${["'self'", catalogueOrigin].filter((source) => source !== undefined).join(" ")}`,
    "worker-src 'self' blob:",
    "frame-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "form-action 'self'",
    "frame-ancestors 'none'",
  ].join("; ");
}

/** An image that is opened on its own has no access to anything of this origin. */
export const imagePolicy = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:";

export const pageHeaders: Readonly<Record<string, string>> = {
  "x-frame-options": "DENY",
  "cross-origin-opener-policy": "same-origin",
  "permissions-policy":
    "accelerometer=(), camera=(), display-capture=(), geolocation=(), gyroscope=(), microphone=(), payment=(), usb=()",
};

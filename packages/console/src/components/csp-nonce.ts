/** What the Content Security Policy of this page requires of styles that scripts add. */
export const cspNonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";

/** The nonce that this page's Content Security Policy requires of styles added by scripts. */
export const cspNonce = document.querySelector<HTMLMetaElement>('meta[property="csp-nonce"]')?.nonce ?? "";

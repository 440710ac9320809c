/** The paths of the pages by which browsers sign in and out, and of the document that describes it. */
export const signInPaths = {
  signIn: "/sign-in",
  /** Followed by the name of the issuer. One path for all would let an issuer supply the response of another one (RFC 9700, section 4.4). */
  callback: "/sign-in/callback/",
  signOut: "/sign-out",
  protectedResource: "/.well-known/oauth-protected-resource",
} as const;

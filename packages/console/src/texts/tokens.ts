export const texts = {
  user: "User",
  login: (client: string) => `Login with ${client}`,
  showAll: (count: number) => `${count} permissions`,

  create: "Create a token",
  lifetimes: [
    { label: "As long as a login (default)", seconds: undefined },
    { label: "1 hour", seconds: 3_600 },
    { label: "1 day", seconds: 86_400 },
    { label: "7 days", seconds: 7 * 86_400 },
    { label: "30 days", seconds: 30 * 86_400 },
    { label: "90 days", seconds: 90 * 86_400 },
    { label: "1 year", seconds: 365 * 86_400 },
  ],

  revoke: "Revoke",
  revokeTitle: (name: string) => `Revoke ${name}?`,
  revokeHint: (user: string) => `Its clients are rejected from then on. It belongs to the user ${user}.`,
  revokeOwn: "You use it here: you will be signed out.",
  revokeAllOf: (user: string) => `Revoke all of ${user}`,
  revokeAllHint: (user: string) =>
    `All tokens, logins and browser sessions of ${user} end, including tokens not listed here. The password still permits new logins.`,
  revoked: (count: number) => (count === 1 ? "1 token was revoked." : `${count} tokens were revoked.`),
} as const;

/**
 * The path of the console, such as `/console`, and what precedes it: the service can be below a path prefix of a proxy. Its own files
 * are at `assets/` in it.
 */
const { origin, pathname } = new URL(import.meta.url);
const end = pathname.lastIndexOf("/console/");

export const consolePath = `${pathname.slice(0, end)}/console`;

export const apiUrl = origin + pathname.slice(0, end);

export function signInUrl(): string {
  const here = location.pathname + location.search;
  return `${apiUrl}/sign-in?return=${encodeURIComponent(here.slice(end))}`;
}

export const signOutUrl = `${apiUrl}/sign-out`;

export const docsUrl = `${apiUrl}/docs`;

export const openApiUrl = `${apiUrl}/openapi.json`;

export const metricsUrl = `${apiUrl}/metrics`;

/**
 * Returns the part of the address's path after a page such as `/flows`, or "" if there is none. Reads `location`
 * because the router decodes its path in part, which makes an id with a percent sign ambiguous.
 */
export function readPathBelow(page: string): string {
  return location.pathname.slice(consolePath.length + page.length + 1);
}

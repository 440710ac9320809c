import { password, username } from "../service.ts";

/** What the page of Node-RED's editor requests with the token of its user. */
const requests: readonly (readonly [path: string, accept: string])[] = [
  ["settings", "application/json"],
  ["settings/user", "application/json"],
  ["locales/editor?lng=en-US", "application/json"],
  ["locales/infotips?lng=en-US", "application/json"],
  ["locales/jsonata?lng=en-US", "application/json"],
  ["plugins", "application/json"],
  ["plugins", "text/html"],
  ["plugins/messages?lng=en-US", "application/json"],
  ["nodes", "application/json"],
  ["nodes", "text/html"],
  ["nodes/messages?lng=en-US", "application/json"],
  ["icons", "application/json"],
  ["flows", "application/json"],
];

/** Requests what a browser does that opens Node-RED's editor at this URL and logs in. */
export async function openEditor(url: string): Promise<void> {
  const page = await get(`${url}/`);
  for (const [, path = ""] of page.matchAll(/(?:src|href)="([^"#:]+)"/g)) {
    await get(`${url}/${path}`);
  }
  const login = await fetch(`${url}/auth/token`, {
    method: "POST",
    body: new URLSearchParams({ client_id: "node-red-editor", grant_type: "password", scope: "", username, password }),
  });
  const { access_token: token } = (await login.json()) as { access_token: string };
  for (const [path, accept] of requests) {
    await get(`${url}/${path}`, { accept, authorization: `Bearer ${token}` });
  }
}

async function get(url: string, headers: Readonly<Record<string, string>> = {}): Promise<string> {
  const response = await fetch(url, { headers: { "accept-encoding": "br", ...headers } });
  const text = await response.text();
  if (!response.ok) {
    throw new Error(`GET ${url} was answered ${response.status}: ${text.slice(0, 200)}`);
  }
  return text;
}

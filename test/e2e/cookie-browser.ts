import { type Reply, type Sending, send } from "./rest.ts";

export type Visit = Reply & { readonly url: string };

function unescape(html: string): string {
  return html.replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
}

/** Where a page sends the browser on by itself. */
export function continuesAt({ url, body }: Visit): string {
  const [, target = ""] = /<meta http-equiv="refresh" content="0; url=([^"]+)"/.exec(body) ?? [];
  return new URL(unescape(target), url).href;
}

/** A browser as far as cookies, redirects and forms matter. Cookies are kept by host; ports share them. */
export class CookieBrowser {
  readonly cookies = new Map<string, string>();
  /** The values of Set-Cookie that were received. */
  readonly received: string[] = [];

  /** Sends one request with the cookies, and keeps those of the response. */
  async send(url: string, method = "GET", { headers = {}, ...sending }: Sending = {}): Promise<Visit> {
    const { origin, pathname, search } = new URL(url);
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const reply = await send(origin, method, pathname + search, {
      ...sending,
      headers: { ...(cookie !== "" && { cookie }), ...headers },
    });
    for (const text of reply.headers["set-cookie"] ?? []) {
      this.received.push(text);
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(text) ?? [];
      if (/max-age=0|expires=thu, 01 jan 1970/i.test(text) || value === "") {
        this.cookies.delete(name);
      } else {
        this.cookies.set(name, value);
      }
    }
    return { ...reply, url };
  }

  /** Follows redirects until a page is shown, or until `stop` returns true for the URL of the next request. */
  async visit(url: string, stop: (url: string) => boolean = () => false): Promise<Visit> {
    let visit = await this.send(url);
    for (let hops = 0; hops < 20; hops++) {
      const { location } = visit.headers;
      if (location === undefined) {
        return visit;
      }
      const next = new URL(location, visit.url).href;
      if (stop(next)) {
        return { ...visit, url: next };
      }
      visit = await this.send(next);
    }
    throw new Error(`${url} redirects without an end`);
  }

  /** Sends the form of a page, and follows redirects. */
  async submit({ url, body }: Visit, fields: Readonly<Record<string, string>> = {}): Promise<Visit> {
    const [, attributes = "", content = ""] = /<form([^>]*)>([^]*?)<\/form>/.exec(body) ?? [];
    const [, action = url] = /action="([^"]*)"/.exec(attributes) ?? [];
    const hidden = [...content.matchAll(/<input[^>]*type="hidden"[^>]*>/g)].map(([input]) => [
      /name="([^"]*)"/.exec(input)?.[1] ?? "",
      unescape(/value="([^"]*)"/.exec(input)?.[1] ?? ""),
    ]);
    const target = new URL(action, url);
    const reply = await this.send(target.href, "POST", {
      headers: { "content-type": "application/x-www-form-urlencoded", origin: new URL(url).origin },
      body: new URLSearchParams({ ...Object.fromEntries(hidden), ...fields }).toString(),
    });
    const { location } = reply.headers;
    return location === undefined ? reply : this.visit(new URL(location, target).href);
  }
}

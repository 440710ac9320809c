import { createClient } from "@connectrpc/connect";
import { readCookie } from "@flowgate/base/cookies";
import { AuthService } from "@flowgate/client";
import { FlowgateError } from "@flowgate/flows/errors";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { authenticated, publicRoute } from "./access.ts";
import { NodeRedError } from "./errors.ts";
import type { SignIn } from "./host.ts";

type Serve = (request: FastifyRequest, reply: FastifyReply) => void;

/**
 * How tools get a token and end it. `serve` issues tokens for passwords. While people can sign in at an issuer, the editor shows a button
 * instead, which leads to the sign-in of the API's origin, and gets its token for a code (`Node-RED` calls this a strategy).
 */
export function addAuthRoutes(app: FastifyInstance, serve: Serve, signIn: SignIn | undefined): void {
  const cookie = signIn && secretCookie(signIn);
  app.get("/auth/login", { config: publicRoute }, async (request, reply) => {
    if (!isOffered(signIn)) {
      return serve(request, reply);
    }
    const takesPasswords = (await createClient(AuthService, request.caller.api).getLogin({})).prompts.length > 0;
    if (takesPasswords && !isEditor(request)) {
      return serve(request, reply);
    }
    const { issuers } = signIn;
    const label = issuers.length === 1 && !takesPasswords ? `Sign in with ${issuers[0]}` : "Sign in";
    // The page of the editor has room for one button only: its others would lead to the same URL.
    return { type: "strategy", prompts: [{ type: "button", label, url: "auth/strategy" }] };
  });
  app.post("/auth/token", { config: publicRoute }, async (request, reply) => {
    const secret = cookie?.read(request);
    if (signIn === undefined || cookie === undefined || secret === undefined || !isEditor(request)) {
      return serve(request, reply);
    }
    reply.header("set-cookie", cookie.format("", 0));
    const code = (await readForm(request)).get("code") ?? "";
    const accessToken = await signIn.redeem(code, secret);
    if (accessToken === undefined) {
      throw new NodeRedError(
        400,
        "invalid_grant",
        "the code was used before, or is not for this browser: sign in again",
      );
    }
    return { accessToken };
  });
  app.post("/auth/revoke", { config: authenticated }, async (request, reply) => {
    if (signIn === undefined || !isEditor(request)) {
      return serve(request, reply);
    }
    const token = (await readForm(request)).get("token") ?? "";
    const redirect = await request.caller.signOut(token);
    return redirect === undefined ? {} : { redirect };
  });
  if (cookie !== undefined) {
    app.get("/auth/strategy", { config: publicRoute }, (_request, reply) => {
      if (!isOffered(signIn)) {
        throw new FlowgateError("not_found", "there is no issuer to sign in at: log in with a password");
      }
      const { location, secret, expiresInSeconds } = signIn.begin();
      return reply.header("set-cookie", cookie.format(secret, expiresInSeconds)).redirect(location);
    });
  }
}

function isOffered(signIn: SignIn | undefined): signIn is SignIn {
  return signIn !== undefined && signIn.issuers.length > 0;
}

/** True for requests of the editor's page: jQuery adds this to all of its requests. `node-red-admin` sends none. */
function isEditor({ headers }: FastifyRequest): boolean {
  return headers["x-requested-with"] === "XMLHttpRequest";
}

/** The cookie with the secret of a sign-in. It is sent with the code only, by the page of the editor. */
function secretCookie({ url }: SignIn) {
  const isSecure = url.startsWith("https:");
  const name = `${isSecure ? "__Host-" : ""}flowgate-editor`;
  const attributes = `SameSite=Strict; Path=/; HttpOnly${isSecure ? "; Secure" : ""}`;
  return {
    format: (secret: string, maxAgeSeconds: number) => `${name}=${secret}; Max-Age=${maxAgeSeconds}; ${attributes}`,
    read: ({ headers }: FastifyRequest) => readCookie(headers.cookie, name),
  };
}

const maxFormBytes = 4 * 1024;

/** The form that the editor sends. Bodies of these routes are not read before. */
async function readForm({ raw }: FastifyRequest): Promise<URLSearchParams> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of raw as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > maxFormBytes) {
      throw new FlowgateError("payload_too_large", `the form may have at most ${maxFormBytes} bytes`);
    }
    chunks.push(chunk);
  }
  return new URLSearchParams(Buffer.concat(chunks).toString());
}

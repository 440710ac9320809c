// Loaded only if browsers can sign in.
import type { Logger } from "pino";
import type { SignInSettings } from "../auth/accounts.ts";
import { EditorSignIn } from "../auth/editor-sign-in.ts";
import { deriveSessionKey } from "../auth/sealed.ts";
import { Sessions } from "../auth/sessions.ts";
import { SignIn, type SignInOptions } from "../auth/sign-in.ts";
import type { Tokens } from "../auth/token-cache.ts";
import type { ServerOptions } from "../server/open-server.ts";
import { cookiesAt, cookiesAtRequests } from "../server/pipeline/session-cookie.ts";
import { readKey } from "../store/credentials.ts";

type BrowserSessions = {
  readonly sessions: Sessions;
  /** Undefined: people do not sign in at Node-RED's editor. */
  readonly editor: EditorSignIn | undefined;
  /** What the server needs for them. */
  serve(options: Pick<SignInOptions, "authenticator" | "limiter" | "audit">): ServerOptions["signIn"];
};

export async function openSessions({
  settings,
  editorUrl,
  credentialSecret,
  dataDir,
  ...shared
}: {
  readonly settings: SignInSettings;
  readonly editorUrl: string | undefined;
  readonly credentialSecret: string | undefined;
  readonly dataDir: string;
  readonly tokens: Tokens;
  readonly log: Logger;
}): Promise<BrowserSessions> {
  const { tokens, log } = shared;
  const common = { settings, key: deriveSessionKey(await readKey({ credentialSecret, dataDir })), now: Date.now };
  const sessions = new Sessions({ ...common, ...shared });
  const editor =
    settings.url === undefined || editorUrl === undefined
      ? undefined
      : new EditorSignIn({ ...common, signInOrigin: settings.url, url: editorUrl, sessions, tokens });
  return {
    sessions,
    editor,
    serve(options) {
      const signIn = new SignIn({ ...common, ...options, sessions, editor, tokens });
      return {
        signIn,
        findCookies: settings.url === undefined ? cookiesAtRequests() : cookiesAt(settings.url),
        onError: (err, { requestId }) => log.error({ requestId, err }, "a sign-in failed unexpectedly"),
      };
    },
  };
}

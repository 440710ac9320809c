// Loaded only if browsers can sign in.
import type { Logger } from "pino";
import type { SignInSettings } from "../auth/accounts.ts";
import { EditorSignIn } from "../auth/editor-sign-in.ts";
import { Sealer } from "../auth/sealed.ts";
import { Sessions } from "../auth/sessions.ts";
import { SignIn, type SignInOptions } from "../auth/sign-in.ts";
import type { Tokens } from "../auth/token-cache.ts";
import type { ServerOptions } from "../server/server-options.ts";
import { cookiesAt, cookiesAtRequests } from "../server/pipeline/session-cookie.ts";
import type { CredentialKeys } from "../store/credential-keys.ts";

type BrowserSessions = {
  readonly sessions: Sessions;
  /** Undefined: people do not sign in at Node-RED's editor. */
  readonly editor: EditorSignIn | undefined;
  /** Returns the sign-in options of the server. */
  serve(options: Pick<SignInOptions, "authenticator" | "limiter" | "audit">): ServerOptions["signIn"];
};

export function openSessions({
  settings,
  editorUrl,
  keys,
  ...shared
}: {
  readonly settings: SignInSettings;
  readonly editorUrl: string | undefined;
  readonly keys: CredentialKeys;
  readonly tokens: Tokens;
  readonly log: Logger;
}): BrowserSessions {
  const { tokens, log } = shared;
  const common = { settings, sealer: new Sealer(keys), now: Date.now };
  const sessions = new Sessions({ settings, now: common.now, ...shared });
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

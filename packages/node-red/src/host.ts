import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import type { DescMethod } from "@bufbuild/protobuf";
import type { ConnectError, Transport } from "@connectrpc/connect";
import type { Event } from "@flowgate/client";
import type { Fields } from "@flowgate/base/fields";
import type { FastifyReply, FastifyRequest } from "fastify";

/**
 * The service that Node-RED's tools work with. Its functions throw, or reject with, errors that `toConnectError` knows; others are bugs.
 */
export interface Host {
  /**
   * Admits a request before its body is read: applies limits, authenticates its caller and checks that it may use the route. Who is not
   * authenticated may use public routes, and is a caller without permissions there.
   */
  admit(request: FastifyRequest, reply: FastifyReply, access: Access): Promise<Caller>;
  /** Admits a request for the websocket; a number is the status with which it is refused. Must check Host and Origin. */
  admitSocket(request: IncomingMessage): SocketClient | number;
  /** Answers one of the routes that the HTTP API of the service has too: tokens and flows. */
  serveApi(request: FastifyRequest, reply: FastifyReply): void;
  /** An error as the API reports it, with an ErrorInfo. Logs bugs, of which it reveals nothing. */
  toConnectError(error: unknown, request: FastifyRequest): ConnectError;
  /** The modules that the runtime loads, with Node-RED's own nodes first. The same array until they are changed. */
  modules(): Promise<readonly NodeModule[]>;
  /** False for events of another runtime than the one that the editor works with. */
  isShown(event: Event): boolean;
  readonly runtime: FlowRuntime;
  readonly library: Library;
  /** The settings that the editor keeps for each user, as JSON. Without authentication, all users share theirs. */
  readonly userSettings: {
    read(username: string | undefined): Promise<string | undefined>;
    write(username: string | undefined, settings: string): Promise<void>;
  };
  /** Undefined: people do not sign in at the editor, but log in with a password. */
  readonly signIn: SignIn | undefined;
}

/** Who may use a route. */
export type Access =
  | { readonly kind: "public" }
  | { readonly kind: "authenticated" }
  | { readonly kind: "permission"; readonly permission: string };

declare module "fastify" {
  interface FastifyContextConfig {
    readonly access?: Access;
    /** The RPC that the route calls, for metrics. Absent: it is counted with all others. */
    readonly rpc?: DescMethod;
  }
  interface FastifyRequest {
    caller: Caller;
  }
}

export interface Caller {
  /** Undefined: not authenticated. */
  readonly username: string | undefined;
  /** Names of permissions, such as `flows.write`, each by itself. */
  readonly permissions: readonly string[];
  /** Calls the RPC API of the service on behalf of the caller. Sends the same event as the same object to all callers. */
  readonly api: Transport;
  /** Calls `end` when the caller loses its access. Disposing ends that. */
  onRevoked(end: () => void): Disposable;
  /** Reserves memory for a response that the client may read slowly. */
  reserve(bytes: number): Promise<void>;
  /** Ends the session of a token. Resolves with the URL at which the browser signs out at its issuer, if there is one. */
  signOut(accessToken: string): Promise<string | undefined>;
  /** Records that the caller has made a node send its message. */
  injected(nodeId: string): void;
}

/** The client of a websocket, which authenticates in its first message. */
export interface SocketClient {
  /** The key under which its client is counted. */
  readonly source: string;
  /** Resolves if the caller may read events. `authorization` has the form of the header; null: there is none. */
  authenticate(authorization: string | null): Promise<Caller>;
  /** Where this client finds a revision; undefined: nowhere. */
  readonly revisionUrl: RevisionUrl | undefined;
}

export type RevisionUrl = (rev: string) => string;

/** Node-RED's runtime, in a process that flows can control: whatever it answers can be forged. */
export interface FlowRuntime {
  /** True if the flows are to run. */
  isStarted(): boolean;
  /** The settings that nodes export to the editor. */
  settings(signal: AbortSignal): Promise<Fields>;
  diagnostics(signal: AbortSignal): Promise<Fields>;
  /** Texts, and for passwords only whether there is one, as `has_NAME`. */
  credentials(node: { readonly type: string; readonly id: string }, signal: AbortSignal): Promise<Fields>;
  /** Values of flows, as the editor shows them; undefined: there is no such store. */
  context(place: ContextPlace, signal: AbortSignal): Promise<Fields | undefined>;
  /** Opens a connection to the routes that nodes register, which know the caller by these header fields. */
  connect(caller: Caller): { readonly connection: Duplex; readonly headers: Readonly<Record<string, string>> };
  /** Removes values of credentials from a text. */
  redact(text: string): string;
}

export type ContextPlace = {
  readonly scope: "global" | "flow" | "node";
  readonly id: string | undefined;
  readonly key: string | undefined;
  readonly store: string | undefined;
  readonly keysOnly: boolean | undefined;
};

/** A module whose nodes the runtime loads. */
export type NodeModule = {
  /** `node-red` for Node-RED's own nodes. */
  readonly name: string;
  readonly version: string;
  readonly dir: string;
  /** True if it was added itself, and not as a dependency. */
  readonly isUser: boolean;
  readonly sets: readonly NodeSet[];
};

/** A file of a module that defines node types or plugins. */
export type NodeSet = {
  readonly kind: "node" | "plugin";
  readonly name: string;
  readonly file: string;
  readonly isEnabled: boolean;
  /** The node types that a program registers as subflows, with the templates of their nodes; undefined: it is malformed. */
  readonly subflows: () => Promise<readonly { readonly type: string; readonly template: string | undefined }[]>;
};

/** The entries that users of the editor share, by type and path. A path of a folder may be empty. */
export interface Library {
  find(type: string, path: string): Promise<string | undefined>;
  /** The names of the folders in a folder. */
  folders(type: string, path: string): Promise<readonly string[]>;
  /** A page of the entries in a folder, of at most 1 MiB, after the entry with the name `after`. `details` is a JSON object. */
  entries(type: string, path: string, after?: string): Promise<readonly LibraryEntry[]>;
}

export type LibraryEntry = { readonly name: string; readonly details: string };

/** The sign-in of people at pages of another origin, which lead back to the editor with a code. */
export interface SignIn {
  /** The origin at which browsers reach the editor. */
  readonly url: string;
  /** The names of the issuers at which people can sign in. */
  readonly issuers: readonly string[];
  /** Where to send a browser to sign in, and the secret that it must keep until it is back. */
  begin(): { readonly location: string; readonly secret: string; readonly expiresInSeconds: number };
  /** Resolves with the token of a code, once; undefined: the code was used before, or is not for a browser with this secret. */
  redeem(code: string, secret: string): Promise<string | undefined>;
}

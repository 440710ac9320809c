import { setImmediate } from "node:timers/promises";
import type { WebSocket } from "ws";
import { createContextValues } from "@connectrpc/connect";
import type { Event } from "../../../../gen/flowgate/v1/events_pb.ts";
import type { Authenticator } from "../../../../src/auth/authenticator.ts";
import { clientKeyOf, type Peer, type Principal, peerKey, principalKey } from "../../../../src/auth/caller.ts";
import type { OpenCalls } from "../../../../src/auth/open-calls.ts";
import { allows } from "../../../../src/auth/permissions.ts";
import { FlowgateError } from "@flowgate/flows/errors";
import type { EventCase } from "../../../../src/live/events.ts";
import type { JoinedFeed } from "../../../../src/live/feed.ts";
import type { Origin } from "../../../../src/store/audit-store.ts";
import {
  type CommsMessage,
  formatMessage,
  type RevisionUrl,
  shownCases,
  toMessages,
  toSharedMessages,
} from "./messages.ts";
import type { PaletteChanges } from "./palette-changes.ts";

export type SessionOptions = {
  readonly authenticator: Pick<Authenticator, "required"> & {
    authenticate(authorization: string | null): Principal | Promise<Principal>;
  };
  /** Ends sessions whose token is revoked or expires. */
  readonly calls: Pick<OpenCalls, "add">;
  readonly join: () => JoinedFeed;
  /** Whether an event is shown: not if it comes from another flow runtime than the editor works with. */
  readonly isShown: (event: Event) => boolean;
  readonly palette: Pick<PaletteChanges, "subscribe">;
  readonly onDenied: (origin: Origin) => void;
  /** Absent: deployments show no link. */
  readonly revisionUrl?: RevisionUrl | undefined;
};

/** The client of a session. */
export type Client = Pick<Peer, "address" | "requestId">;

/** What a client may send is short: a token, or the name of a topic. */
export const maxMessageBytes = 8 * 1024;

/** The time in which a session must authenticate. */
const loginMs = 10_000;

/** Node-RED's values: messages are sent in groups, and something is sent at least as often as this. */
const maxGroup = 50;
const groupMs = 50;
const keepAliveMs = 15_000;

/** What may wait in memory for a client that reads slowly. Events that it then misses are counted. */
const maxBufferedBytes = 256 * 1024;
const drainMs = 100;

/** Serves a client of `/comms`, as Node-RED's editor uses it: it authenticates in its first message, and then subscribes to topics. */
export class CommsSession {
  readonly #socket: WebSocket;
  readonly #client: Client;
  readonly #options: SessionOptions;
  readonly #resources = new DisposableStack();
  #principal: Principal | undefined;
  #feed: JoinedFeed["feed"] | undefined;
  #waiting: CommsMessage[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isAlive = true;
  /** Resolves when the states of the last topic were sent. */
  #retained: Promise<void> = Promise.resolve();
  /** Resolves when the messages so far were handled. */
  #received: Promise<void> = Promise.resolve();
  #receiving = 0;
  /** The newest revision that the client knows of. */
  #rev: string | undefined;
  #hasDebug = false;
  /** Tests of the topics that it has subscribed to. */
  readonly #topics = new Map<string, TopicTest>();
  readonly #login: NodeJS.Timeout;
  /** Ends the session with its token. */
  #call: Disposable | undefined;

  constructor(socket: WebSocket, client: Client, options: SessionOptions) {
    this.#socket = socket;
    this.#client = client;
    this.#options = options;
    this.#login = setTimeout(() => this.#close(policyViolation, "no token was sent in time"), loginMs);
    const keepAlive = setInterval(() => this.#keepAlive(), keepAliveMs);
    this.#resources.defer(() => {
      clearTimeout(this.#login);
      clearInterval(keepAlive);
      clearTimeout(this.#timer);
      this.#call?.[Symbol.dispose]();
    });
    socket.on("message", (data, isBinary) =>
      this.#enqueue(data instanceof Buffer && !isBinary ? data.toString() : undefined),
    );
    socket.on("pong", () => {
      this.#isAlive = true;
    });
    socket.on("error", () => socket.terminate());
    socket.on("close", () => this.#resources.dispose());
  }

  get isAuthenticated(): boolean {
    return this.#principal !== undefined;
  }

  /** The key under which its client is counted. */
  get source(): string {
    return clientKeyOf(this.#client.address);
  }

  /** The service is closing: editors connect again. */
  close(): void {
    this.#close(serviceRestart, "the service is closing");
  }

  terminate(): void {
    this.#socket.terminate();
  }

  /** One after another: what a client sends is read only after it is authenticated. */
  #enqueue(text: string | undefined): void {
    if (this.#resources.disposed) {
      return;
    }
    this.#receiving += 1;
    if (text === undefined || this.#receiving > maxReceiving) {
      this.#close(policyViolation, "send single messages of text");
      return;
    }
    this.#received = this.#received
      .then(() => this.#receive(text))
      .catch(() => this.#close(internalError, "internal error"))
      .finally(() => {
        this.#receiving -= 1;
      });
  }

  async #receive(text: string): Promise<void> {
    const { auth, subscribe } = parseMessage(text);
    if (typeof auth === "string") {
      await this.#authenticate(`Bearer ${auth}`);
    } else if (this.#principal === undefined && !(await this.#authenticate(null))) {
      return;
    }
    if (typeof subscribe === "string") {
      // Each answer can be long.
      await this.#untilRead();
      await (this.#retained = this.#subscribe(subscribe));
    }
  }

  /** The first time, and when a user logs in whose client was not authenticated before. */
  async #authenticate(authorization: string | null): Promise<boolean> {
    const { authenticator, calls, onDenied } = this.#options;
    let principal: Principal;
    try {
      principal = await authenticator.authenticate(authorization);
    } catch (error) {
      if (!(error instanceof FlowgateError)) {
        throw error;
      }
      this.#refuse();
      return false;
    }
    if (this.#resources.disposed) {
      return false;
    }
    const { permissions } = principal;
    const mayRead = allows(permissions, "events.read");
    if (!mayRead) {
      onDenied({ by: principal.username, token: principal.token, ...this.#client, protocol: "rest" });
    }
    if (!mayRead || (this.#hasDebug && !allows(permissions, "debug.read"))) {
      this.#refuse();
      return false;
    }
    clearTimeout(this.#login);
    this.#principal = principal;
    const values = createContextValues()
      .set(peerKey, { ...this.#client, authorization })
      .set(principalKey, principal);
    const kept = ["events.read", ...(this.#mayDebug ? ["debug.read"] : [])];
    this.#call?.[Symbol.dispose]();
    this.#call = calls.add({ values, requestHeader: new Headers() }, { permissions: kept, end: () => this.#refuse() });
    if (authorization !== null) {
      this.#socket.send(JSON.stringify({ auth: "ok" }));
    }
    await this.#openFeed();
    return true;
  }

  get #mayDebug(): boolean {
    return allows(this.#principal?.permissions ?? [], "debug.read");
  }

  /** The editor then shows its login, and connects again. */
  #refuse(): void {
    if (this.#socket.readyState === this.#socket.OPEN) {
      this.#socket.send(JSON.stringify({ auth: "fail" }));
      this.#close(normalClosure, "not authorized");
    }
  }

  async #openFeed(): Promise<void> {
    if (this.#feed !== undefined || this.#resources.disposed) {
      return;
    }
    const { feed, ready, [Symbol.dispose]: leave } = this.#options.join();
    this.#resources.defer(leave);
    this.#feed = feed;
    await ready;
    if (this.#resources.disposed) {
      return;
    }
    this.#follow(new Set(shownCases));
    if (this.#mayDebug) {
      this.#follow(new Set(["editorMessage"]));
    }
    this.#resources.use(this.#options.palette.subscribe((message) => this.#send([message])));
  }

  async #subscribe(topic: string): Promise<void> {
    if (topic === "debug" && this.#mayDebug && !this.#hasDebug) {
      this.#hasDebug = true;
      this.#follow(new Set(["debug"]));
    }
    const isRetained = this.#topics.get(topic) ?? createTopicTest(topic);
    if (this.#topics.size < maxTopics) {
      this.#topics.set(topic, isRetained);
    }
    const states = this.#feed?.states() ?? [];
    // There can be thousands, for hundreds of sessions.
    for (let at = 0; at < states.length && !this.#resources.disposed; at += maxGroup) {
      const shown = states.slice(at, at + maxGroup).filter((event) => this.#isShown(event));
      this.#send(shown.flatMap(toSharedMessages).filter((message) => isRetained(message.topic)));
      await this.#untilRead();
      await setImmediate();
    }
  }

  /** Sends the events of these kinds from now on, as fast as the client reads them. */
  #follow(cases: ReadonlySet<EventCase>): void {
    if (this.#feed === undefined || this.#resources.disposed) {
      return;
    }
    const stream = this.#feed.watch({ cases });
    this.#resources.defer(() => void stream.return());
    void (async () => {
      try {
        for await (const event of stream) {
          // A state from before must not replace this one.
          await this.#retained;
          if (this.#isShown(event) || event.kind.case === "dropped") {
            this.#send(this.#toNews(event));
          }
          await this.#untilRead();
        }
        this.close();
      } catch {
        this.close();
      }
    })();
  }

  /** What modules publish is the data of flows, and can be long: it is sent to those who have asked for it. */
  #isShown(event: Event): boolean {
    const { kind } = event;
    const isWanted =
      kind.case !== "editorMessage" ||
      (this.#mayDebug && this.#topics.values().some((isSubscribed) => isSubscribed(kind.value.topic)));
    return isWanted && this.#options.isShown(event);
  }

  /** A deployment is news once, while its outcome can change several times. */
  #toNews(event: Event): readonly CommsMessage[] {
    if (event.kind.case !== "deployment") {
      return toSharedMessages(event);
    }
    const messages = toMessages(event, this.#options.revisionUrl);
    const isKnown = this.#rev === event.rev;
    this.#rev = event.rev;
    return isKnown ? messages.filter(({ topic }) => topic !== "notification/runtime-deploy") : messages;
  }

  get #isBehind(): boolean {
    return this.#socket.bufferedAmount > maxBufferedBytes;
  }

  /** Resolves when the client has read most of what was sent to it. */
  async #untilRead(): Promise<void> {
    while (this.#isBehind && !this.#resources.disposed) {
      await new Promise((resolve) => setTimeout(resolve, drainMs));
    }
  }

  #send(messages: readonly CommsMessage[]): void {
    if (messages.length === 0 || this.#resources.disposed) {
      return;
    }
    this.#waiting.push(...messages);
    if (this.#waiting.length >= maxGroup) {
      this.#flush();
    } else {
      this.#timer ??= setTimeout(() => this.#flush(), groupMs);
    }
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    for (let at = 0; at < this.#waiting.length; at += maxGroup) {
      this.#socket.send(
        `[${this.#waiting
          .slice(at, at + maxGroup)
          .map(formatMessage)
          .join()}]`,
      );
    }
    this.#waiting = [];
  }

  #keepAlive(): void {
    if (!this.#isAlive) {
      this.#socket.terminate();
      return;
    }
    this.#isAlive = false;
    this.#socket.ping();
    if (this.#principal !== undefined) {
      this.#send([{ topic: "hb", data: Date.now() }]);
    }
  }

  #close(code: number, reason: string): void {
    this.#resources.dispose();
    this.#socket.close(code, reason);
  }
}

const maxReceiving = 100;

/** The topics that are remembered of one client. */
const maxTopics = 200;

/** RFC 6455, section 7.4.1, and the registry of codes. */
const normalClosure = 1000;
const policyViolation = 1008;
const internalError = 1011;
const serviceRestart = 1012;

type ClientMessage = { readonly auth?: unknown; readonly subscribe?: unknown };

/** Node-RED ignores what is malformed, too. */
function parseMessage(text: string): ClientMessage {
  try {
    return Object(JSON.parse(text)) as ClientMessage;
  } catch {
    return {};
  }
}

type TopicTest = (topic: string) => boolean;

/**
 * Whether a topic is one that a client subscribes to: the same one, in which `+` stands for any level, or one below it if that ends with `/#`.
 */
function createTopicTest(subscribed: string): TopicTest {
  const isBelow = subscribed.endsWith("/#");
  const levels = (isBelow ? subscribed.slice(0, -2) : subscribed).split("/");
  if (!levels.includes("+")) {
    const own = levels.join("/");
    return (topic) => topic === own || (isBelow && topic.startsWith(`${own}/`));
  }
  return (topic) => {
    const given = topic.split("/");
    return (
      (isBelow ? given.length >= levels.length : given.length === levels.length) &&
      levels.every((level, at) => level === "+" || level === given[at])
    );
  };
}

import { setImmediate } from "node:timers/promises";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { type Event, EventKind, EventsService } from "@flowgate/client";
import { FlowgateError } from "@flowgate/flows/errors";
import type { WebSocket } from "ws";
import type { Caller, Host, SocketClient } from "../host.ts";
import { type CommsMessage, formatMessage, toMessages, toSharedMessages } from "./messages.ts";
import type { PaletteChanges } from "./palette-changes.ts";

export type SessionOptions = {
  readonly host: Pick<Host, "isShown">;
  readonly palette: Pick<PaletteChanges, "begin" | "messagesOf">;
};

/** The size limit of a message from a client: it is a token, or the name of a topic. */
export const maxMessageBytes = 8 * 1024;

/** The time in which a session must authenticate. */
const loginMs = 10_000;

/** Node-RED's values: messages are sent in groups, and something is sent at least as often as this. */
const maxGroup = 50;
const groupMs = 50;
const keepAliveMs = 15_000;

/** The limit of messages that wait for a slow client. Events that it misses are counted. */
const maxBufferedBytes = 256 * 1024;
const drainMs = 100;

/** Serves a client of `/comms`, as Node-RED's editor uses it: it authenticates in its first message, and then subscribes to topics. */
export class CommsSession {
  readonly #socket: WebSocket;
  readonly #client: SocketClient;
  readonly #options: SessionOptions;
  readonly #resources = new DisposableStack();
  #caller: Caller | undefined;
  /** Ends the streams of the caller. */
  #streams = new AbortController();
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

  constructor(socket: WebSocket, client: SocketClient, options: SessionOptions) {
    this.#socket = socket;
    this.#client = client;
    this.#options = options;
    this.#login = setTimeout(() => this.#close(policyViolation, "no token was sent in time"), loginMs);
    const keepAlive = setInterval(() => this.#keepAlive(), keepAliveMs);
    this.#resources.defer(() => {
      clearTimeout(this.#login);
      clearInterval(keepAlive);
      clearTimeout(this.#timer);
      this.#streams.abort();
    });
    this.#resources.use(options.palette.begin());
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
    return this.#caller !== undefined;
  }

  /** The key under which its client is counted. */
  get source(): string {
    return this.#client.source;
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
    } else if (this.#caller === undefined && !(await this.#authenticate(null))) {
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
    let caller: Caller;
    try {
      caller = await this.#client.authenticate(authorization);
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
    this.#caller = caller;
    if (this.#hasDebug && !this.#mayDebug) {
      this.#refuse();
      return false;
    }
    clearTimeout(this.#login);
    if (authorization !== null) {
      this.#socket.send(JSON.stringify({ auth: "ok" }));
    }
    this.#streams.abort();
    this.#streams = new AbortController();
    void this.#follow([...stateKinds, EventKind.NODE_ERROR, EventKind.MODULE]);
    if (this.#mayDebug) {
      void this.#follow([EventKind.EDITOR_MESSAGE]);
    }
    if (this.#hasDebug) {
      void this.#follow([EventKind.DEBUG]);
    }
    return true;
  }

  get #mayDebug(): boolean {
    return this.#caller?.permissions.includes("debug.read") === true;
  }

  /** The editor then shows its login, and connects again. */
  #refuse(): void {
    if (this.#socket.readyState === this.#socket.OPEN) {
      this.#socket.send(JSON.stringify({ auth: "fail" }));
      this.#close(normalClosure, "not authorized");
    }
  }

  async #subscribe(topic: string): Promise<void> {
    if (topic === "debug" && this.#mayDebug && !this.#hasDebug) {
      this.#hasDebug = true;
      void this.#follow([EventKind.DEBUG]);
    }
    const isRetained = this.#topics.get(topic) ?? createTopicTest(topic);
    if (this.#topics.size < maxTopics) {
      this.#topics.set(topic, isRetained);
    }
    let count = 0;
    const kinds = this.#mayDebug ? [...stateKinds, EventKind.EDITOR_MESSAGE] : stateKinds;
    await this.#watch(kinds, async (event) => {
      if (this.#isShown(event)) {
        this.#send(toSharedMessages(event).filter((message) => isRetained(message.topic)));
      }
      count += 1;
      if (count % maxGroup === 0) {
        // There can be thousands, for hundreds of sessions.
        await this.#untilRead();
        await setImmediate();
      }
      return event.kind.case !== "snapshotEnd";
    });
  }

  /** Sends the events of these kinds from now on, as fast as the client reads them. */
  #follow(kinds: EventKind[]): Promise<void> {
    let isNew = false;
    return this.#watch(kinds, async (event) => {
      if (isNew) {
        // A state from before must not replace this one.
        await this.#retained;
        this.#send(await this.#toNews(event));
        await this.#untilRead();
      }
      isNew ||= event.kind.case === "snapshotEnd";
      return true;
    });
  }

  /** Passes events of these kinds to `take` until it resolves with false: the current states, `snapshotEnd`, and then what happens. */
  async #watch(kinds: EventKind[], take: (event: Event) => Promise<boolean>): Promise<void> {
    const { signal } = this.#streams;
    const ended = new AbortController();
    const end = (): void => ended.abort();
    signal.addEventListener("abort", end);
    try {
      const { watchEvents } = createClient(EventsService, (this.#caller as Caller).api);
      for await (const event of watchEvents({ kinds }, { signal: ended.signal })) {
        if (!(await take(event))) {
          return;
        }
      }
    } catch (error) {
      const { code } = ConnectError.from(error);
      if (!signal.aborted && (code === Code.Unauthenticated || code === Code.PermissionDenied)) {
        this.#refuse();
      }
    } finally {
      // Connect ends no stream with its iteration.
      signal.removeEventListener("abort", end);
      end();
    }
    if (!signal.aborted) {
      this.close();
    }
  }

  /** Messages of modules contain data of flows and can be long, so they are sent to subscribers only. */
  #isShown(event: Event): boolean {
    const { kind } = event;
    const isWanted =
      kind.case !== "editorMessage" ||
      (this.#mayDebug && this.#topics.values().some((isSubscribed) => isSubscribed(kind.value.topic)));
    return isWanted && this.#options.host.isShown(event);
  }

  /** A deployment is news once, while its outcome can change several times. */
  async #toNews(event: Event): Promise<readonly CommsMessage[]> {
    const { kind, rev } = event;
    if (kind.case === "dropped") {
      return toSharedMessages(event);
    }
    if (!this.#isShown(event)) {
      return [];
    }
    if (kind.case === "module") {
      return kind.value.state === "done" ? this.#options.palette.messagesOf(event) : [];
    }
    if (kind.case !== "deployment") {
      return toSharedMessages(event);
    }
    const messages = toMessages(event, this.#client.revisionUrl);
    const isKnown = this.#rev === rev;
    this.#rev = rev;
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
    if (this.#caller !== undefined) {
      this.#send([{ topic: "hb", data: Date.now() }]);
    }
  }

  #close(code: number, reason: string): void {
    this.#resources.dispose();
    this.#socket.close(code, reason);
  }
}

/** The kinds of events that have a current state. Modules publish another one, which is data of flows. */
const stateKinds: EventKind[] = [EventKind.NODE_STATUS, EventKind.DEPLOYMENT, EventKind.RUNTIME_STATE];

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
 * True for topics that a client subscribes to: the same one, in which `+` stands for any level, or one below it if that ends with `/#`.
 */
function createTopicTest(subscribed: string): TopicTest {
  const levels = subscribed
    .replace(/\/#$/, "")
    .split("/")
    .map((level) => (level === "+" ? "[^/]*" : RegExp.escape(level)));
  const pattern = new RegExp(`^${levels.join("/")}${subscribed.endsWith("/#") ? "(?:/.*)?" : ""}$`, "s");
  return (topic) => pattern.test(topic);
}

import dgram from "node:dgram";
import dns from "node:dns";
import net from "node:net";
import os from "node:os";
import type { NetworkPolicy } from "../network-policy.ts";

export type NetworkGuard = {
  /** Keeps flows from a port of the service, its store, its collector or a token issuer, from now on. */
  protectPort(port: number): void;
  /** Applies the policy to all sockets of this thread. Must be called once, before any node is loaded. */
  enforce(policy: NetworkPolicy): void;
};

/** Functions of an undocumented class of Node, by name. */
type Prototype = Record<string, (this: object, ...args: unknown[]) => unknown>;

// Error codes as libuv returns them.
const EACCES = -os.constants.errno.EACCES;
const EADDRNOTAVAIL = -os.constants.errno.EADDRNOTAVAIL;

const notSupported =
  "this version of Node.js lacks an internal function that is needed to restrict the network access of flows: use Node.js 26";

const maxReports = 100;

/** The parts that all replaced functions share. */
type Checks = {
  readonly findConnectDenial: (address: string, port: number) => string | undefined;
  readonly findListenDenial: (port: number) => string | undefined;
  /** Reports a denial, and returns the code that the function fails with. */
  readonly deny: (handle: object, message: string) => number;
};

/**
 * Limits what flows connect to, and what they listen on. Each denial is passed to `report` once.
 *
 * The functions are replaced below Node's own JavaScript, which http, http2, tls, dgram, fetch and WebSocket share. A flow can
 * replace every property of built-in objects. Therefore the replacements use only what was captured before, and convert each
 * argument once, so that the checked value is the used one.
 */
export function createNetworkGuard(report: (message: string) => void): NetworkGuard {
  const tcp = findTcpPrototype();
  const udp = findUdpPrototype();
  const resolver = findResolverPrototype();
  const isOwnAddress = createOwnAddressCheck(tcp);
  const denials = explainErrors();
  const reported = new Set<string>();
  /** 1 for each protected port. */
  const isProtected = new Uint8Array(65_536);

  return {
    protectPort(port) {
      isProtected[port] = 1;
    },
    enforce(policy) {
      const checks: Checks = {
        findConnectDenial(address, port) {
          const denial = policy.findDenial(address, port, isProtected[port] === 1 && isOwnAddress(address));
          return denial && `flows may not connect to ${address} port ${port}: ${denial}`;
        },
        findListenDenial: (port) =>
          isProtected[port] === 1
            ? `flows may not listen on port ${port}: a port of the service, its store, its collector or a token issuer`
            : undefined,
        deny(handle, message) {
          if (reported.size < maxReports && !reported.has(message)) {
            reported.add(message);
            report(message);
          }
          denials.set(handle, message);
          return EACCES;
        },
      };
      for (const name of ["connect", "connect6"]) {
        checkConnect(tcp, name, { addressAt: 1, portAt: 2 }, checks);
        checkConnect(udp, name, { addressAt: 0, portAt: 1 }, checks);
      }
      for (const name of ["send", "send6"]) {
        checkConnect(udp, name, { addressAt: 4, portAt: 3 }, checks);
      }
      for (const name of ["bind", "bind6"]) {
        checkBind(tcp, name, checks);
        checkBind(udp, name, checks);
      }
      checkListen(tcp, checks);
      checkNameServers(resolver, checks);
    },
  };
}

/** Replaces a function that has an address and a port as arguments; without them, it uses a connection. */
function checkConnect(
  prototype: Prototype,
  name: string,
  { addressAt, portAt }: { readonly addressAt: number; readonly portAt: number },
  { findConnectDenial, deny }: Checks,
): void {
  const { apply } = Reflect;
  const toText = String;
  const original = functionOf(prototype, name);
  prototype[name] = function (...args) {
    if (args.length <= addressAt || args.length <= portAt) {
      return apply(original, this, args);
    }
    const address = toText(args[addressAt]);
    const port = toPort(args[portAt]);
    args[addressAt] = address;
    args[portAt] = port;
    const denial = findConnectDenial(address, port);
    return denial === undefined ? apply(original, this, args) : deny(this, denial);
  };
}

function checkBind(prototype: Prototype, name: string, { findListenDenial, deny }: Checks): void {
  const { apply } = Reflect;
  const original = functionOf(prototype, name);
  prototype[name] = function (...args) {
    const port = toPort(args[1]);
    args[1] = port;
    const denial = findListenDenial(port);
    return denial === undefined ? apply(original, this, args) : deny(this, denial);
  };
}

/** The system may have selected the port. */
function checkListen(tcp: Prototype, { findListenDenial, deny }: Checks): void {
  const { apply } = Reflect;
  const { create } = Object;
  const original = functionOf(tcp, "listen");
  const getsockname = functionOf(tcp, "getsockname");
  tcp["listen"] = function (...args) {
    const name = create(null) as { port?: number };
    apply(getsockname, this, [name]);
    const denial = findListenDenial(name.port ?? 0);
    return denial === undefined ? apply(original, this, args) : deny(this, denial);
  };
}

function checkNameServers(resolver: Prototype, { findConnectDenial, deny }: Checks): void {
  const { apply } = Reflect;
  const { from } = Array;
  const toText = String;
  const original = functionOf(resolver, "setServers");
  resolver["setServers"] = function (servers) {
    let denial: string | undefined;
    const check = (server: readonly unknown[]) => {
      const address = toText(server[1]);
      const port = toPort(server[2]);
      denial ??= findConnectDenial(address, port);
      return [server[0], address, port];
    };
    const checked: unknown = apply(from, Array, [servers, check]);
    return denial === undefined ? apply(original, this, [checked]) : deny(this, denial);
  };
}

/** As the system truncates it. */
function toPort(value: unknown): number {
  return (value as number) & 0xffff;
}

/** Returns a test whether an address is one of this machine: whether a socket can be bound to it. */
function createOwnAddressCheck(tcp: Prototype): (address: string) => boolean {
  const { apply, construct } = Reflect;
  const [bind, bind6, close] = ["bind", "bind6", "close"].map((name) => functionOf(tcp, name)) as [
    Prototype[string],
    Prototype[string],
    Prototype[string],
  ];
  const Tcp = functionOf(tcp, "constructor");
  const clientSocket = 0;

  return (address) => {
    const socket = construct(Tcp, [clientSocket]) as object;
    let isIpv6 = false;
    for (let at = 0; at < address.length; at += 1) {
      isIpv6 ||= address[at] === ":";
    }
    const code = apply(isIpv6 ? bind6 : bind, socket, [address, 0, 0]);
    apply(close, socket, []);
    return code !== EADDRNOTAVAIL;
  };
}

/** Adds the reasons of denials, by handle, to the errors of TCP sockets. */
function explainErrors(): WeakMap<object, string> {
  const denials = new WeakMap<object, string>();
  // The handle of a TLS connection has that of its TCP connection as parent.
  type Socket = { readonly _handle?: { readonly _parent?: object } | null };
  const prototype = net.Socket.prototype as { destroy: (this: Socket, error?: Error, ...rest: []) => net.Socket };
  const { destroy } = prototype;
  prototype.destroy = function (error, ...rest) {
    const handle = this._handle?._parent ?? this._handle;
    const denial = handle && denials.get(handle);
    if (denial && error) {
      error.message = `${error.message}${error.message && ": "}${denial}`;
    }
    return destroy.call(this, error, ...rest);
  };
  return denials;
}

function findTcpPrototype(): Prototype {
  // The handle is created at once, but the connection would be opened on the next turn of the event loop.
  const socket = net.connect(1, "127.0.0.1") as net.Socket & { readonly _handle?: object };
  const prototype = prototypeOf(socket._handle);
  socket.destroy();
  return prototype;
}

function findUdpPrototype(): Prototype {
  const socket = dgram.createSocket("udp4") as dgram.Socket & Record<symbol, { readonly handle?: object } | undefined>;
  const state = Object.getOwnPropertySymbols(socket).find(({ description }) => description === "state symbol");
  const prototype = prototypeOf(state && socket[state]?.handle);
  socket.close();
  return prototype;
}

function findResolverPrototype(): Prototype {
  return prototypeOf((new dns.Resolver() as dns.Resolver & { readonly _handle?: object })._handle);
}

function prototypeOf(handle: object | undefined): Prototype {
  if (handle === undefined) {
    throw new Error(notSupported);
  }
  return Object.getPrototypeOf(handle) as Prototype;
}

function functionOf(prototype: Prototype, name: string): Prototype[string] {
  const found = prototype[name];
  if (found === undefined) {
    throw new Error(notSupported);
  }
  return found;
}

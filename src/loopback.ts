import { BlockList, isIP } from "node:net";

/** Whether a host is `localhost`, in 127.0.0.0/8 (also if mapped into IPv6), or ::1. */
export function isLoopback(host: string): boolean {
  if (host === "localhost") {
    return true;
  }
  const version = isIP(host);
  return version !== 0 && loopback.check(host, version === 6 ? "ipv6" : "ipv4");
}

const loopback = new BlockList();
loopback.addSubnet("127.0.0.0", 8, "ipv4");
loopback.addAddress("::1", "ipv6");

import { generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";

/** Certificates for tests, made on the spot: X.509 version 3 (RFC 5280) with P-256 keys, written in DER. */

export type Issued = {
  /** PEM. */
  readonly cert: string;
  /** PEM. */
  readonly key: string;
};

export type Authority = Issued & { readonly name: string; issue(certificate?: Partial<CertificateOptions>): Issued };

type CertificateOptions = {
  readonly name: string;
  readonly uris: readonly string[];
  readonly dnsNames: readonly string[];
  /** IPv4. */
  readonly addresses: readonly string[];
  readonly from: Date;
  readonly to: Date;
  readonly ca: boolean;
};

const day = 86_400_000;
export const daysFromNow = (days: number): Date => new Date(Date.now() + days * day);

export function createAuthority(name = "Test authority"): Authority {
  const keys = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const self = { name, uris: [], dnsNames: [], addresses: [], from: daysFromNow(-30), to: daysFromNow(30), ca: true };
  const cert = writeCertificate({ ...self, publicKey: keys.publicKey, issuer: name, signer: keys.privateKey });
  return {
    name,
    cert,
    key: pemKey(keys.privateKey),
    issue(certificate) {
      const { publicKey, privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
      const options = { ...self, name: "test", ca: false, from: daysFromNow(-1), to: daysFromNow(1), ...certificate };
      return {
        cert: writeCertificate({ ...options, publicKey, issuer: name, signer: keys.privateKey }),
        key: pemKey(privateKey),
      };
    },
  };
}

/** One for 127.0.0.1 and localhost. */
export function issueServer(authority: Authority, certificate: Partial<CertificateOptions> = {}): Issued {
  return authority.issue({ dnsNames: ["localhost"], addresses: ["127.0.0.1"], ...certificate });
}

function pemKey(key: KeyObject): string {
  return key.export({ type: "pkcs8", format: "pem" });
}

const ecdsaWithSha256 = sequence(oid("1.2.840.10045.4.3.2"));

type Writing = CertificateOptions & { publicKey: KeyObject; issuer: string; signer: KeyObject };

function writeCertificate({ name, issuer, from, to, publicKey, signer, ...rest }: Writing): string {
  const spki = publicKey.export({ type: "spki", format: "der" });
  const body = sequence(
    tagged(0xa0, tagged(0x02, Buffer.of(2))),
    tagged(0x02, Buffer.concat([Buffer.of(1), randomBytes(8)])),
    ecdsaWithSha256,
    distinguishedName(issuer),
    sequence(time(from), time(to)),
    distinguishedName(name),
    spki,
    tagged(0xa3, sequence(...extensions(rest))),
  );
  const signature = tagged(0x03, Buffer.concat([Buffer.of(0), sign("sha256", body, signer)]));
  const base64 = sequence(body, ecdsaWithSha256, signature).toString("base64");
  const lines = base64.match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
}

function extensions({ ca, uris, dnsNames, addresses }: Pick<Writing, "ca" | "uris" | "dnsNames" | "addresses">) {
  const names = [
    ...dnsNames.map((dnsName) => tagged(0x82, Buffer.from(dnsName))),
    ...uris.map((uri) => tagged(0x86, Buffer.from(uri))),
    ...addresses.map((address) => tagged(0x87, Buffer.from(address.split(".").map(Number)))),
  ];
  const isCa = tagged(0x01, Buffer.of(0xff));
  return [
    extension("2.5.29.19", sequence(...(ca ? [isCa] : [])), isCa),
    // digitalSignature, or keyCertSign.
    extension("2.5.29.15", tagged(0x03, ca ? Buffer.of(2, 0x04) : Buffer.of(7, 0x80)), isCa),
    ...(names.length === 0 ? [] : [extension("2.5.29.17", sequence(...names))]),
  ];
}

function extension(id: string, value: Buffer, ...critical: Buffer[]): Buffer {
  return sequence(oid(id), ...critical, tagged(0x04, value));
}

function distinguishedName(commonName: string): Buffer {
  return sequence(tagged(0x31, sequence(oid("2.5.4.3"), tagged(0x0c, Buffer.from(commonName)))));
}

/** GeneralizedTime (section 4.1.2.5.2): good for every year. */
function time(date: Date): Buffer {
  return tagged(0x18, Buffer.from(`${date.toISOString().slice(0, 19).replaceAll(/[-:T]/g, "")}Z`));
}

function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number);
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

function base128(number: number): number[] {
  const digits = [number & 0x7f];
  for (let left = number >> 7; left > 0; left >>= 7) {
    digits.unshift((left & 0x7f) | 0x80);
  }
  return digits;
}

function sequence(...parts: Buffer[]): Buffer {
  return tagged(0x30, Buffer.concat(parts));
}

function tagged(tag: number, content: Buffer): Buffer {
  const { length } = content;
  const size = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...size]), content]);
}

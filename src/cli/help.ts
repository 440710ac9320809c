import { settings } from "./settings.ts";

const rows = [
  { flag: "--config <path>", variable: "FLOWGATE_CONFIG", help: "Read this configuration file (YAML)" },
  ...settings.map(({ flag, variable, hint, help }) => ({ flag: `--${flag} <${hint}>`, variable, help })),
];
const flagWidth = Math.max(...rows.map(({ flag }) => flag.length)) + 2;
const variableWidth = Math.max(...rows.map(({ variable }) => variable.length)) + 2;

export const helpText = `Usage: flowgate [command] [flags]

Serves the administration API of a flow runtime, over HTTP, Connect, gRPC and gRPC-Web on one port.

Commands:
  start                 Start the service (the default)
  backup <file>         Copy the store to a new file, also while the service runs
  restore <file>        Restore the store from such a copy; the service must not run
  migrate               Copy the store --from one URL --to another; no service must use them
  audit verify [head]   Check the audit log, also while the service runs, and print its head
  hash-password         Prompt for a password, or read one line from stdin, and print its hash
  help                  Show this

Flags and equivalent environment variables; backup, restore and audit support --config, --data-dir and --store, migrate
--config, --data-dir, --from and --to, each of which defaults to the configured store:
${rows.map(({ flag, variable, help }) => `  ${flag.padEnd(flagWidth)}${variable.padEnd(variableWidth)}${help}`).join("\n")}
  ${"-h, --help".padEnd(flagWidth + variableWidth)}Show this
  ${"-V, --version".padEnd(flagWidth + variableWidth)}Show the version

Flags take precedence over variables, variables over the configuration file. docs/configuration.md has all options.

A configuration file, flowgate.yaml:

  host: 0.0.0.0
  dataDir: /var/lib/flowgate
  adminAuth:
    users:
      - username: admin
        password: "$argon2id$v=19$m=19456,t=2,p=1$..."   # from flowgate hash-password
        permissions: "*"
    default:
      permissions: read

Start it, get a token, and read the flows with it:

  flowgate --config flowgate.yaml
  curl -d client_id=service-admin -d grant_type=password -d scope='*' \\
       -d username=admin --data-urlencode password@password.txt http://127.0.0.1:8080/auth/token
  curl -H 'Authorization: Bearer <access_token>' http://127.0.0.1:8080/flows
`;

import { defineConfig } from "oxlint";

export default defineConfig({
  plugins: ["typescript", "unicorn", "oxc", "import", "promise", "node", "vitest"],
  jsPlugins: ["./scripts/lint/plugin.ts"],
  categories: { correctness: "error", suspicious: "error" },
  options: { typeAware: true },
  rules: {
    "flowgate/layers": ["error", import.meta.dirname],
    // Circles of types too.
    "import/no-cycle": ["error", { ignoreTypes: false }],
    "import/no-default-export": "error",
    "import/no-named-as-default-member": "off",
    "import/no-unassigned-import": "off",
    "typescript/no-floating-promises": "error",
    "typescript/no-misused-promises": "error",
    "typescript/switch-exhaustiveness-check": ["error", { considerDefaultExhaustiveForUnions: true }],
    "typescript/no-explicit-any": "error",
    "typescript/no-non-null-assertion": "error",
    "typescript/consistent-type-imports": "error",
    "no-console": "error",
    "eslint/curly": "error",
    "eslint/no-await-in-loop": "off",
    "eslint/no-shadow": "off",
    "eslint/no-underscore-dangle": "off",
    "unicorn/no-array-sort": "error",
    "unicorn/prefer-node-protocol": "error",
    // Messages go to threads, not to windows.
    "unicorn/require-post-message-target-origin": "off",
    "unicorn/consistent-function-scoping": "off",
    "promise/always-return": "off",
    "typescript/no-unsafe-type-assertion": "off",
    "typescript/consistent-return": "off",
    "vitest/expect-expect": ["error", { assertFunctionNames: ["expect", "fc.assert"] }],
  },
  ignorePatterns: ["**/gen/", "**/dist/", "packages/gateway/test/e2e/generators/clients/"],
  overrides: [
    {
      files: ["**/*.config.ts", "scripts/lint/plugin.ts", "test/quiet-reporter.ts"],
      rules: { "import/no-default-export": "off" },
    },
    {
      files: ["packages/console/src/**"],
      plugins: ["typescript", "unicorn", "oxc", "import", "promise", "react", "jsx-a11y"],
      rules: {
        "react/react-in-jsx-scope": "off",
        // Is about React's compiler, which is not used.
        "react/incompatible-library": "off",
      },
    },
    { files: ["bench/**"], rules: { "no-console": "off" } },
    {
      files: ["src/auth/**", "src/services/**"],
      rules: {
        "no-restricted-imports": [
          "error",
          {
            paths: [
              {
                name: "@connectrpc/connect",
                importNames: ["Code", "ConnectError"],
                message: "Throw a FlowgateError, which the server converts to a ConnectError.",
              },
            ],
          },
        ],
      },
    },
  ],
});

import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { fleetShapes } from '../src/cli/fleet/shapes.ts';
import { problemShape, shapes } from '../src/cli/output/shapes.ts';

/*
 * Makes docs/json.md of the schemas in src/cli/output/shapes.ts: node scripts/document-json.ts. test/cli/json.test.ts fails if
 * the page is not what this makes.
 */

export const pagePath = fileURLToPath(new URL('../docs/json.md', import.meta.url));

const introduction = `# JSON of the commands

Every command but \`serve\`, \`controller\` and \`completion\` prints JSON with \`--json\`, for programs. This page is made from the schemas in
\`src/cli/output/shapes.ts\` (\`node scripts/document-json.ts\`), and a test holds what the commands print to them. Fields may be
added; none changes its meaning.

- **Bytes** are strings of decimal digits, as many programs lose digits of numbers above 2^53. All other numbers are numbers.
- A field with a \`?\` is left out where there is nothing to say.
- **Standard output** has the result, and nothing else. It is empty if there is none.
- **Standard error** has an object on a line of its own for each thing that went wrong, in the form below. Lists have what
  they may lack in \`problems\` instead.
- The **exit code** is 0 if all is well, 1 if something is wrong, 2 if the command or the configuration is wrong.
`;

const fleetIntroduction = `## JSON of kubectl holdfast

The items are those of the commands on a node, with their nodes ([kubectl holdfast](kubectl.md)). A node whose answer is not there is in
\`missing\`; the exit code is then 1. \`export\` tells of it on standard error.
`;

export function jsonPage(): string {
  const sections = Object.entries(shapes).map(([command, schema]) => section(`holdfast ${command} --json`, schema));
  const fleet = Object.entries(fleetShapes).map(([list, schema]) => {
    const command = list === 'moves' ? 'move status' : list;
    return section(`kubectl holdfast ${command} --json`, schema);
  });
  return [introduction, section('Errors, a line each', problemShape), ...sections, fleetIntroduction, ...fleet].join(
    '\n',
  );
}

function section(title: string, schema: z.ZodType): string {
  const rows = fieldsOf(z.toJSONSchema(schema, { io: 'output' }), '');
  const lines = rows.map(({ name, type, description }) => `| \`${name}\` | ${type} | ${description} |`);
  return `## ${title}\n\n| field | type | |\n|---|---|---|\n${lines.join('\n')}\n`;
}

interface Field {
  readonly name: string;
  readonly type: string;
  readonly description: string;
}

type Schema = z.core.JSONSchema.JSONSchema;

/** Fields of objects one by one; of a list, those of its items. */
function fieldsOf(schema: Schema, prefix: string): Field[] {
  const required = new Set(schema.required ?? []);
  const own = Object.entries(schema.properties ?? {}).flatMap(([key, value]) => {
    if (typeof value === 'boolean') return [];
    const name = `${prefix}${key}`;
    const mark = required.has(key) ? '' : '?';
    const field = { name: `${name}${mark}`, type: typeOf(value), description: value.description ?? '' };
    return [field, ...fieldsOf(itemOf(value) ?? value, `${name}${itemOf(value) === undefined ? '' : '[]'}.`)];
  });
  const alternatives = (schema.oneOf ?? schema.anyOf ?? []).filter((each) => typeof each !== 'boolean');
  return [...own, ...merged(alternatives.map((each) => fieldsOf(each, prefix)))];
}

function itemOf({ items }: Schema): Schema | undefined {
  return typeof items === 'object' && !Array.isArray(items) ? items : undefined;
}

/** A field that several alternatives have is one, whose types are those of all. */
function merged(alternatives: readonly (readonly Field[])[]): Field[] {
  const names = new Set(alternatives.flatMap((fields) => fields.map(({ name }) => name)));
  return [...names].map((name) => {
    const found = alternatives.flatMap((fields) => fields.filter((field) => field.name === name));
    const mark = found.length < alternatives.length && !name.endsWith('?') ? '?' : '';
    const type = [...new Set(found.map((field) => field.type))].join(', ');
    return { name: `${name}${mark}`, type, description: found[0]?.description ?? '' };
  });
}

function typeOf(schema: Schema): string {
  const item = itemOf(schema);
  if (item !== undefined) return `list of ${plural(typeOf(item))}`;
  const values = schema.enum ?? (schema.const === undefined ? undefined : [schema.const]);
  if (values !== undefined) return values.map((value) => `\`${value}\``).join(', ');
  if (schema.type === 'string') return schema.pattern === undefined ? 'string' : 'bytes';
  if (schema.type === 'object' && schema.properties === undefined) return 'object of any keys';
  return typeof schema.type === 'string' ? schema.type : 'object';
}

function plural(type: string): string {
  return /^[a-z]+$/.test(type) && type !== 'bytes' ? `${type}s` : type;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) writeFileSync(pagePath, jsonPage());

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import protobuf from 'protobufjs';
import { generateWire } from '../../scripts/generate-wire.ts';
import { descriptorJson } from '../../src/csi/generated/descriptor.ts';
import { Scratch } from '../support/scratch.ts';

/*
 * proto/csi-wire.json has the facts of the wire as the CSI specification gives them. What the driver serves is compared
 * with them one by one: names, numbers, types, labels, oneofs, options, enum values and streaming.
 */

const protoDirectory = new URL('../../proto/', import.meta.url);
const generatedDirectory = new URL('../../src/csi/generated/', import.meta.url);

function reference(): protobuf.Root {
  const root = protobuf.Root.fromJSON(JSON.parse(readFileSync(new URL('csi-wire.json', protoDirectory), 'utf8')));
  root.resolveAll();
  return root;
}

function parsed(): protobuf.Root {
  const root = new protobuf.Root();
  protobuf.parse(readFileSync(new URL('csi.proto', protoDirectory), 'utf8'), root, { keepCase: true });
  for (const file of ['descriptor', 'timestamp', 'wrappers']) {
    root.addJSON(protobuf.common.get(`google/protobuf/${file}.proto`)?.nested ?? descriptorProto());
  }
  root.resolveAll();
  return root;
}

/** What the driver gives to proto-loader. */
function loaded(): protobuf.Root {
  const root = protobuf.Root.fromJSON(JSON.parse(descriptorJson));
  root.resolveAll();
  return root;
}

/** protobufjs has it as a file beside the code. */
function descriptorProto(): Record<string, protobuf.AnyNestedObject> {
  const file = fileURLToPath(import.meta.resolve('protobufjs/google/protobuf/descriptor.json'));
  return JSON.parse(readFileSync(file, 'utf8')).nested;
}

/** Every fact below a namespace as a line of text. */
function facts(namespace: protobuf.NamespaceBase): string[] {
  return namespace.nestedArray.flatMap((object) => {
    const nested = object instanceof protobuf.Namespace ? facts(object) : [];
    return [...factsOf(object), ...nested];
  });
}

function factsOf(object: protobuf.ReflectionObject): string[] {
  const name = object.fullName;
  if (object instanceof protobuf.Type) {
    const oneofs = object.oneofsArray.map((oneof) => `oneof ${oneof.fullName}: ${oneof.oneof.join(' ')}`);
    return [`message ${name}${options(object)}`, ...oneofs, ...object.fieldsArray.map(fieldFact)];
  }
  if (object instanceof protobuf.Enum) {
    const values = Object.entries(object.values).map(([value, number]) => {
      return `value ${name}.${value} = ${number} ${JSON.stringify(object.valuesOptions?.[value] ?? {})}`;
    });
    return [`enum ${name}${options(object)}`, ...values];
  }
  if (object instanceof protobuf.Service) {
    return [`service ${name}${options(object)}`, ...object.methodsArray.map(methodFact)];
  }
  return object instanceof protobuf.Field ? [`${fieldFact(object)} extends ${object.extend}`] : [];
}

function fieldFact(field: protobuf.Field): string {
  const type = field.resolvedType?.fullName ?? field.type;
  const key = field instanceof protobuf.MapField ? `map<${field.keyType}>` : '';
  const label = field.repeated ? 'repeated' : 'singular';
  return `field ${field.fullName} = ${field.id} ${label} ${key}${type} in ${field.partOf?.name}${options(field)}`;
}

function methodFact(method: protobuf.Method): string {
  const request = method.parent?.lookupType(method.requestType).fullName;
  const response = method.parent?.lookupType(method.responseType).fullName;
  const streams = `${method.requestStream === true} ${method.responseStream === true}`;
  return `rpc ${method.fullName} ${request} ${response} ${streams}${options(method)}`;
}

/** Our own marks (`alpha_*`, `csi_secret`); protobufjs adds some of its own to a resolved root. */
function options(object: protobuf.ReflectionObject): string {
  const entries = Object.entries(object.options ?? {}).filter(([name]) => name.startsWith('('));
  return ` ${JSON.stringify(Object.fromEntries(entries.sort()))}`;
}

function csiFacts(root: protobuf.Root): string[] {
  const namespace = root.lookup('csi.v1');
  assert.ok(namespace instanceof protobuf.Namespace);
  return [`package ${JSON.stringify(namespace.options?.['go_package'])}`, ...facts(namespace)].sort();
}

const isExtension = (fact: string) => fact.includes(' extends ');

describe('the contract', () => {
  const expected = csiFacts(reference());

  test('the facts are all there: services, RPCs, messages, fields, enum values, options', () => {
    const count = (start: string) => expected.filter((fact) => fact.startsWith(start)).length;
    assert.deepEqual(['service', 'rpc', 'message', 'enum ', 'oneof'].map(count), [5, 32, 94, 8, 6]);
    assert.equal(expected.filter((fact) => fact.includes('(csi_secret)')).length, 19, 'X01');
    assert.equal(expected.filter(isExtension).length, 7);
    assert.equal(expected.filter((fact) => /\(alpha_/.test(fact) && !isExtension(fact)).length, 21);
  });

  test('proto/csi.proto says exactly this', () => {
    assert.deepEqual(csiFacts(parsed()), expected);
  });

  test('what the driver has loaded says exactly this, the declarations of the options aside', () => {
    assert.deepEqual(
      csiFacts(loaded()),
      expected.filter((fact) => !isExtension(fact)),
    );
  });

  test('the well-known types are those of protobuf', () => {
    const [ours, theirs] = [loaded(), reference()];
    for (const name of ['Timestamp', 'BoolValue', 'Int64Value']) {
      const path = `google.protobuf.${name}`;
      assert.deepEqual(factsOf(ours.lookupType(path)), factsOf(theirs.lookupType(path)));
    }
  });

  test('pluginregistration is what the kubelet speaks', () => {
    const namespace = loaded().lookup('pluginregistration');
    assert.ok(namespace instanceof protobuf.Namespace);
    const own = facts(namespace).map((fact) =>
      fact.replaceAll('.pluginregistration.', '').replace(/ in undefined| \{\}/g, ''),
    );
    assert.deepEqual(own, [
      'service Registration',
      'rpc Registration.GetInfo InfoRequest PluginInfo false false',
      'rpc Registration.NotifyRegistrationStatus RegistrationStatus RegistrationStatusResponse false false',
      'message InfoRequest',
      'message PluginInfo',
      'field PluginInfo.type = 1 singular string',
      'field PluginInfo.name = 2 singular string',
      'field PluginInfo.endpoint = 3 singular string',
      'field PluginInfo.supported_versions = 4 repeated string',
      'message RegistrationStatus',
      'field RegistrationStatus.plugin_registered = 1 singular bool',
      'field RegistrationStatus.error = 2 singular string',
      'message RegistrationStatusResponse',
    ]);
  });
});

describe('src/csi/generated', () => {
  const files = generateWire(protoDirectory);
  for (const { name, text } of files) {
    test(`${name} is up to date with proto/ (npm run generate)`, () => {
      assert.equal(readFileSync(new URL(name, generatedDirectory), 'utf8'), text);
    });
  }

  test('nothing else is there', () => {
    const there = readdirSync(generatedDirectory, { recursive: true, withFileTypes: true });
    assert.equal(there.filter((entry) => entry.isFile()).length, files.length);
  });

  test('L12 int64 stays exact in the bundle: protobufjs finds its Long there as well', async () => {
    using scratch = new Scratch('wire');
    const outfile = scratch.join('contract.mjs');
    await build({
      entryPoints: [fileURLToPath(new URL('../../src/csi/contract.ts', import.meta.url))],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      logLevel: 'error',
      banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url);" },
    });
    const program = `
      import { contract, decode, encode } from '${outfile}';
      const type = contract.lookupType('csi.v1.CapacityRange');
      const { required_bytes } = decode(type, encode(type, { required_bytes: 2n ** 63n - 1n }));
      console.log(String(required_bytes));`;
    const output = execFileSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' });
    assert.equal(output.trim(), '9223372036854775807');
  });
});

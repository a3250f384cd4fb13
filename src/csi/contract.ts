import {
  type AnyDefinition,
  fromJSON,
  type MessageTypeDefinition,
  type Options,
  type ServiceDefinition,
} from '@grpc/proto-loader';
import { descriptorJson } from './generated/descriptor.ts';
import { type MessageType, MessageTypes, type NamespaceJson } from './message-type.ts';

/** One RPC of the contract. */
export interface Method {
  readonly name: string;
  /** The :path header: `/csi.v1.Node/NodeGetInfo`. */
  readonly path: string;
  readonly requestType: MessageType;
  readonly responseType: MessageType;
  readonly responseStream: boolean;
}

/** Every field is present, as the generated types require: an enum by name, an int64 as a bigint (L12). */
const readOptions: Options = {
  longs: BigInt,
  enums: String,
  defaults: true,
  arrays: true,
  objects: true,
  oneofs: true,
};

// Generated from proto/ when the driver is built: at run time no .proto text is parsed, and no file is needed.
const descriptor: NamespaceJson = JSON.parse(descriptorJson);
const definitions = fromJSON(descriptor, readOptions);

/** The messages of proto/. */
export const contract = new MessageTypes(descriptor);

/** The methods of a service, by its full name. */
export function methodsOf(serviceName: string): Method[] {
  const methods = contract.namespace(`.${serviceName}`)?.methods;
  const service = definitions[serviceName];
  if (methods === undefined || service === undefined || isType(service)) {
    throw new Error(`the contract has no service ${serviceName}`);
  }
  return Object.values(service).map(({ path, responseStream }) => {
    const name = path.slice(path.lastIndexOf('/') + 1);
    return { name, path, responseStream, ...messagesOf(name) };
  });

  function messagesOf(name: string): Pick<Method, 'requestType' | 'responseType'> {
    const types = methods?.[name];
    const requestType = types && contract.find(types.requestType, `.${serviceName}`);
    const responseType = types && contract.find(types.responseType, `.${serviceName}`);
    if (requestType && responseType) return { requestType, responseType };
    throw new Error(`the contract does not say what ${serviceName}/${name} is asked and answers`);
  }
}

/** A message of the contract by its name: `.csi.v1.Topology`. */
type Named = Pick<MessageType, 'fullName'>;

/**
 * Reads a message; unknown fields are dropped, malformed bytes or UTF-8 throw. `T` is the generated interface of
 * `type`: both are generated from the same proto/.
 */
export function decode<T>(type: Named, bytes: Buffer): T {
  return definitionOf(type).deserialize(bytes) as T;
}

/** Writes a message: a `Draft` of the generated interface of `type`. */
export function encode(type: Named, message: object): Buffer {
  return definitionOf(type).serialize(message);
}

function definitionOf({ fullName }: Named): MessageTypeDefinition<object, object> {
  const definition = definitions[fullName.slice(1)];
  if (definition === undefined || !isMessage(definition)) throw new Error(`the contract has no message ${fullName}`);
  return definition;
}

function isMessage(definition: AnyDefinition): definition is MessageTypeDefinition<object, object> {
  return isType(definition) && 'serialize' in definition;
}

/** Narrows to a message or an enum; a service has methods and nothing else. */
function isType(definition: AnyDefinition): definition is Exclude<AnyDefinition, ServiceDefinition> {
  return typeof definition.format === 'string';
}

import protobuf from 'protobufjs/light.js';
import { descriptorJson } from './generated/descriptor.ts';

/*
 * protobufjs is used directly. @grpc/proto-loader would do the same work, but it parses .proto files at start, and in
 * what it decodes an int64 is a string or a Long, never a bigint.
 */

/** One RPC of the contract, with the way its messages take to and from bytes. */
export interface Method {
  readonly name: string;
  /** As in the :path header: `/csi.v1.Node/NodeGetInfo`. */
  readonly path: string;
  readonly requestType: protobuf.Type;
  readonly responseType: protobuf.Type;
  readonly responseStream: boolean;
}

/** Every field is there, as the generated types say: an enum by name, an int64 as a bigint (L12). */
const readOptions: protobuf.IConversionOptions = {
  longs: BigInt,
  enums: String,
  defaults: true,
  arrays: true,
  objects: true,
  oneofs: true,
};

/** The contract of proto/. Types resolve and compile when they are first used, so most of it costs nothing. */
export const contract = protobuf.Root.fromJSON(JSON.parse(descriptorJson));

/** The methods of a service, by its full name. */
export function methodsOf(serviceName: string): Method[] {
  const service = contract.lookupService(serviceName);
  return service.methodsArray.map((method) => ({
    name: method.name,
    path: `/${serviceName}/${method.name}`,
    requestType: service.lookupType(method.requestType),
    responseType: service.lookupType(method.responseType),
    responseStream: method.responseStream === true,
  }));
}

/**
 * Reads a message; unknown fields are dropped, malformed bytes or UTF-8 throw.
 * `T` is the generated interface of `type`. It holds because both are made from the same descriptor.
 */
export function decode<T>(type: protobuf.Type, bytes: Uint8Array): T {
  return type.toObject(type.decode(bytes), readOptions) as T;
}

/** Writes a message: a `Draft` of the generated interface of `type`. */
export function encode(type: protobuf.Type, message: object): Buffer {
  const bytes = type.encode(type.fromObject({ ...message })).finish();
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

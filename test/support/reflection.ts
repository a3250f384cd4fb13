import protobuf from 'protobufjs/light.js';
import { descriptorJson } from '../../src/csi/generated/descriptor.ts';

/** The contract with all that protobufjs knows of it: oneofs, enum values, the packages. */
export const reflection = protobuf.Root.fromJSON(JSON.parse(descriptorJson));

/** A message of the driver's as protobufjs has it. */
export function reflected({ fullName }: { readonly fullName: string }): protobuf.Type {
  return reflection.lookupType(fullName);
}

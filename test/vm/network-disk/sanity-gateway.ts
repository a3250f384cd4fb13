/*
 * Runs in the virtual machine, between csi-sanity and a driver of disks that makes no volumes: what a person does there who writes
 * a PersistentVolume for a disk, this program does in CreateVolume. All other calls go to the home and the node service.
 */
import { readFileSync } from 'node:fs';
import * as grpc from '@grpc/grpc-js';
import { z } from 'zod';
import { decode, encode, type Method, methodsOf } from '../../../src/csi/contract.ts';
import type {
  ControllerGetCapabilitiesResponse,
  CreateVolumeRequest,
  DeleteVolumeRequest,
} from '../../../src/csi/generated/types.ts';

/** One disk that waits for a PersistentVolume: its handle and its volumeAttributes. */
const diskSchema = z.object({ handle: z.string(), context: z.record(z.string(), z.string()), sizeBytes: z.number() });
export const planSchema = z.object({
  socket: z.string(),
  home: z.string(),
  node: z.string(),
  disks: z.array(diskSchema),
});
export type GatewayPlan = z.infer<typeof planSchema>;
type Disk = z.infer<typeof diskSchema>;

type Answer = (error: Partial<grpc.StatusObject> | null, bytes?: Buffer) => void;

const bytesAsTheyAre = (bytes: Buffer) => bytes;
/** Longer than csi-sanity itself waits. */
const deadlineMs = 300_000;

class Gateway {
  readonly #home: grpc.Client;
  readonly #node: grpc.Client;
  readonly #free: Disk[];
  readonly #byName = new Map<string, Disk>();

  constructor({ disks, home, node }: GatewayPlan) {
    const client = (path: string) => new grpc.Client(`unix:${path}`, grpc.credentials.createInsecure());
    this.#home = client(home);
    this.#node = client(node);
    this.#free = [...disks];
  }

  addTo(server: grpc.Server): void {
    for (const service of ['csi.v1.Identity', 'csi.v1.Controller', 'csi.v1.Node']) {
      const to = service === 'csi.v1.Node' ? this.#node : this.#home;
      const methods = methodsOf(service).filter(({ responseStream }) => !responseStream);
      const definition = Object.fromEntries(methods.map((method) => [method.name, definitionOf(method)]));
      const handlers = methods.map((method) => [
        method.name,
        (call: grpc.ServerUnaryCall<Buffer, Buffer>, answer: Answer) => this.#answer(method, to, call.request, answer),
      ]);
      server.addService(definition, Object.fromEntries(handlers));
    }
  }

  #answer(method: Method, to: grpc.Client, request: Buffer, answer: Answer): void {
    if (method.name === 'CreateVolume') {
      this.#create(method, request, answer);
      return;
    }
    if (method.name === 'DeleteVolume') {
      this.#delete(method, request, answer);
      return;
    }
    this.#pass(method, to, request, answer);
  }

  #pass(method: Method, to: grpc.Client, request: Buffer, answer: Answer): void {
    const deadline = Date.now() + deadlineMs;
    to.makeUnaryRequest(method.path, bytesAsTheyAre, bytesAsTheyAre, request, { deadline }, (error, response) => {
      if (error !== null || method.name !== 'ControllerGetCapabilities' || response === undefined) {
        answer(error, response);
        return;
      }
      const own = decode<ControllerGetCapabilitiesResponse>(method.responseType, response);
      const capabilities = [...own.capabilities, { rpc: { type: 'CREATE_DELETE_VOLUME' } }];
      answer(null, encode(method.responseType, { capabilities }));
    });
  }

  #create({ requestType, responseType }: Method, bytes: Buffer, answer: Answer): void {
    const { name } = decode<CreateVolumeRequest>(requestType, bytes);
    const disk = this.#byName.get(name) ?? this.#free.shift();
    if (disk === undefined) {
      answer({ code: grpc.status.RESOURCE_EXHAUSTED, details: 'no disk is left' });
      return;
    }
    this.#byName.set(name, disk);
    const volume = { volume_id: disk.handle, capacity_bytes: BigInt(disk.sizeBytes), volume_context: disk.context };
    answer(null, encode(responseType, { volume }));
  }

  #delete({ requestType, responseType }: Method, bytes: Buffer, answer: Answer): void {
    const { volume_id } = decode<DeleteVolumeRequest>(requestType, bytes);
    for (const [name, disk] of this.#byName) {
      if (disk.handle !== volume_id) continue;
      this.#byName.delete(name);
      this.#free.push(disk);
    }
    answer(null, encode(responseType, {}));
  }
}

function definitionOf({ path }: Method): grpc.MethodDefinition<Buffer, Buffer> {
  return {
    ...{ path, requestStream: false, responseStream: false },
    requestSerialize: bytesAsTheyAre,
    requestDeserialize: bytesAsTheyAre,
    responseSerialize: bytesAsTheyAre,
    responseDeserialize: bytesAsTheyAre,
  };
}

if (import.meta.main) {
  const plan = planSchema.parse(JSON.parse(readFileSync(process.argv[2] ?? '', 'utf8')));
  const server = new grpc.Server();
  new Gateway(plan).addTo(server);
  server.bindAsync(`unix:${plan.socket}`, grpc.ServerCredentials.createInsecure(), (error) => {
    if (error !== null) throw error;
  });
}

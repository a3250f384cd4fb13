/**
 * Fields of messages from the descriptor, for the rules that depend on them: sizes (limits.ts), secrets (redact.ts).
 */

/** A namespace of the descriptor in the JSON of protobufjs: a package, a message, an enum, a service. */
export interface NamespaceJson {
  readonly nested?: Readonly<Record<string, NamespaceJson>>;
  /** Messages only. */
  readonly fields?: Readonly<Record<string, FieldJson>>;
  /** Services only. */
  readonly methods?: Readonly<Record<string, MethodJson>>;
}

interface FieldJson {
  readonly type: string;
  readonly rule?: string;
  readonly keyType?: string;
  readonly options?: Readonly<Record<string, unknown>>;
}

export interface MethodJson {
  readonly requestType: string;
  readonly responseType: string;
}

export interface Field {
  readonly name: string;
  /**
   * The type in the .proto file: `string`, `int64`, or the name of a message or an enum. For a map: the type of its
   * values.
   */
  readonly type: string;
  /** The message that `type` names. */
  readonly message: MessageType | undefined;
  readonly isMap: boolean;
  readonly isRepeated: boolean;
  /** Marked as `csi_secret` (X01). */
  readonly isSecret: boolean;
}

/** A message of the contract. */
export class MessageType {
  /** The full name in protobuf: `.csi.v1.CreateVolumeRequest`. */
  readonly fullName: string;
  readonly name: string;
  readonly #messages: MessageTypes;
  readonly #json: Readonly<Record<string, FieldJson>>;
  #fields: readonly Field[] | undefined;

  constructor(fullName: string, json: Readonly<Record<string, FieldJson>>, messages: MessageTypes) {
    this.fullName = fullName;
    this.name = fullName.slice(fullName.lastIndexOf('.') + 1);
    this.#json = json;
    this.#messages = messages;
  }

  get fields(): readonly Field[] {
    this.#fields ??= Object.entries(this.#json).map(([name, { keyType, options, rule, type }]) => ({
      name,
      type,
      message: this.#messages.find(type, this.fullName),
      isMap: keyType !== undefined,
      isRepeated: rule === 'repeated',
      isSecret: options?.['(csi_secret)'] === true,
    }));
    return this.#fields;
  }
}

/** All messages of a descriptor; each is parsed at its first use. */
export class MessageTypes {
  readonly #root: NamespaceJson;
  readonly #known = new Map<string, MessageType>();

  constructor(root: NamespaceJson) {
    this.#root = root;
  }

  /** Finds a message by its full name: `csi.v1.Topology`. */
  lookupType(name: string): MessageType {
    const type = this.#at(`.${name}`);
    if (type === undefined) throw new Error(`the contract has no message ${name}`);
    return type;
  }

  /**
   * Resolves `name` inside `scope`: the innermost namespace that has it counts, as in C++. Not a message: undefined.
   */
  find(name: string, scope: string): MessageType | undefined {
    for (let outer = scope; ; outer = outer.slice(0, outer.lastIndexOf('.'))) {
      const fullName = `${outer}.${name}`;
      if (outer === '' || this.namespace(fullName) !== undefined) return this.#at(fullName);
    }
  }

  /** Finds anything by its full name. */
  namespace(fullName: string): NamespaceJson | undefined {
    let found: NamespaceJson | undefined = this.#root;
    for (const part of fullName.split('.').slice(1)) {
      found = found?.nested !== undefined && Object.hasOwn(found.nested, part) ? found.nested[part] : undefined;
    }
    return found;
  }

  #at(fullName: string): MessageType | undefined {
    const known = this.#known.get(fullName);
    if (known !== undefined) return known;
    const fields = this.namespace(fullName)?.fields;
    if (fields === undefined) return undefined;
    const type = new MessageType(fullName, fields, this);
    this.#known.set(fullName, type);
    return type;
  }
}

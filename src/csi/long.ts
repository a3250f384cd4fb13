/** An int64 of a message (L12). The generated types say Long, after the class that protobufjs has where there is no bigint. */
export type Long = bigint;

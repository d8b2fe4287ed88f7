// What an example sends and reads, by the path that it posts to: the types of the document of the conversation server.
import type { paths } from "./conversations"

type Filled<Path> = Path extends `${infer Before}{${string}}${infer After}` ? `${Before}${string}${Filled<After>}` : Path

type Posts = { [Path in keyof paths as paths[Path] extends { post: object } ? Path : never]: Required<paths[Path]>["post"] }

type Route<Path extends string> = { [At in keyof Posts]: Path extends Filled<At> ? Posts[At] : never }[keyof Posts]

type JSONOf<Message> = Message extends { content: { "application/json": infer Body } } ? Body : never

export type Body<Path extends string> = Route<Path> extends { requestBody?: infer Request } ? JSONOf<NonNullable<Request>> : never

type Answered<Responses> = { [Status in keyof Responses]: Status extends 200 | 201 | 202 ? JSONOf<Responses[Status]> : never }[keyof Responses]

export type Answer<Path extends string> = Omit<Response, "json" | "body"> & {
  json(): Promise<Route<Path> extends { responses: infer Responses } ? Answered<Responses> : never>
  body: ReadableStream<BufferSource>
}

package config

import "time"

// Config is everything that can be set. The zero value is not usable: start from Default.
type Config struct {
	// Directory that holds all durable state of this node; created when missing. One node per directory. Put it on a
	// disk with fast fsync: every acknowledged write waits for it. Default ./parley-data.
	DataDir string `key:"data_dir"`
	// Address (host:port) of the API and the page. Anything but loopback needs auth.enabled, or auth.allow_insecure.
	// Port 0 picks a free one. Default 127.0.0.1:8080.
	Listen string `key:"listen"`
	// Address (host:port) of the operations surface: /healthz, /readyz, /metrics, /version, /debug/pprof. It has no
	// authentication: keep it off the public network. Default 127.0.0.1:8081.
	OpsListen string `key:"ops_listen"`
	// How long a graceful stop may take in all: running turns may finish, streams get a clean end, data is flushed.
	// Turns still running then are recovered at the next start. Keep it below the supervisor's own kill timeout.
	// Default 25s.
	ShutdownGrace time.Duration `key:"shutdown_grace"`
	// Cluster addresses (host:port) of nodes to join; may hold this node's own. A node with an empty data directory that
	// stands first in its own list (or has none) founds a cluster, unless one of the others has one already; every other
	// one waits until it finds a cluster to join. The same list on all nodes is right. Default [].
	Join []string `key:"join"`

	// API token with which the Client API can be used at once: owner's rights, full scope, in the first project; the
	// conversation server takes it too. Without one a token is made at the first start and printed once. Default "".
	BootstrapToken Secret `key:"bootstrap_token"`
	// Encrypts credentials that are stored (keys of models and agents, callback secrets): the same on all nodes of a cluster,
	// and never to be lost or changed. Its variable is PROVIDER_ENCRYPTION_SECRET too; where both are unset JWT_SECRET is
	// taken. A node that is alone makes its own and keeps it in its data directory. Default "".
	ProviderEncryptionSecret Secret `key:"provider_encryption_secret"`

	Node         Node         `key:"node"`
	Cluster      Cluster      `key:"cluster"`
	Log          Log          `key:"log"`
	Storage      Storage      `key:"storage"`
	HTTP         HTTP         `key:"http"`
	Auth         Auth         `key:"auth"`
	Limits       Limits       `key:"limits"`
	Conversation Conversation `key:"conversation"`
	Actors       Actors       `key:"actors"`
	Turn         Turn         `key:"turn"`
	Tools        Tools        `key:"tools"`
	HITL         HITL         `key:"hitl"`
	Hooks        Hooks        `key:"hooks"`
	Outbound     Outbound     `key:"outbound"`
	Export       Exports      `key:"export"`
	Tasks        Tasks        `key:"tasks"`
	Client       Client       `key:"client"`
	Gateway      Gateway      `key:"gateway"`
	SSE          SSE          `key:"sse"`
	Ops          Ops          `key:"ops"`

	// Keeps the built-in agent "assistant", which answers from the scripted model without any network. Set it to false
	// to offer only the agents below. As long as there are none below, the built-in agent "demo" stands beside it: it asks
	// for approvals, asks questions, takes files and spends pretended money. Default true.
	BuiltinAssistant bool `key:"builtin_assistant"`
	// The agents on offer, in the order in which they are listed. Default [].
	Agents []Agent `key:"agents"`

	lookupEnv func(name string) (string, bool) // for api_key_env; set by Load
}

// Node identifies this process.
type Node struct {
	// Name of this node: 1 to 63 letters, digits and hyphens, unlike any other node's. The cluster remembers a node's data
	// by it, so it must stay the same over restarts. Default node-1.
	Name string `key:"name"`
}

// Log is about the process's own log, written to standard error.
type Log struct {
	// Least level that is written: debug, info, warn or error. Debug costs throughput under load. Default info.
	Level string `key:"level"`
	// Form of a line: text for people, json for collectors. Default text.
	Format string `key:"format"`
}

// Storage is about the replicated log and the store beneath it.
type Storage struct {
	// Number of shards over which conversations are spread, 1 to 1024. Fixed when the data directory is created; a
	// different value later is refused, and a node that joins a cluster takes the cluster's. More shards spread load over
	// more nodes and cost a little idle work each.
	// Default 16.
	Shards int `key:"shards"`
	// Memory for cached blocks of the store. More saves reads from disk of conversations that are not in memory. All but
	// 8MiB of it is given back while nobody reads. Default 128MiB.
	Cache Size `key:"cache"`
	// Memory of one write buffer of the store: up to four under load, two for good. Larger ones flush less often and make
	// restart replay longer. Default 16MiB.
	Memtable Size `key:"memtable"`
	// Writes are refused with 503 while the disk has less free space than this; reads and cancels go on. It must leave
	// room for compactions. Default 256MiB.
	MinFree Size `key:"min_free"`
	// Log entries of a shard between two snapshots. Fewer bound disk use and restart work tighter, more cost less
	// background writing. Default 20000.
	SnapshotEntries int `key:"snapshot_entries"`
	// Log entries kept behind a snapshot, so that a replica that was away for a moment catches up from the log.
	// Default 5000.
	KeepEntries int `key:"keep_entries"`
	// Bytes per second at which a copy of a shard is sent to another node and written there; two are sent at a time. More
	// has a joining node serve sooner, less disturbs the others less meanwhile. Default 16MiB.
	SnapshotRate Size `key:"snapshot_rate"`
	// Tables the store may hold open; an eighth of the process's file limit where that is less. Default 1000.
	MaxOpenFiles int `key:"max_open_files"`
}

// HTTP is about the public listener.
type HTTP struct {
	// Path before all routes of the conversation server; a trailing slash is dropped. Default /api/agents.
	BasePath string `key:"base_path"`
	// Serves the chat page at /. Default true.
	Page bool `key:"page"`
	// Serves the interactive API documentation at {base_path}/docs, and that of the Client API at
	// {client.base_path}/docs. Default true.
	Docs bool `key:"docs"`
	// Time a client has to send a whole request, and the longest silence of a new connection. Cuts off slow senders
	// (slow-loris); must allow the largest body on the slowest line. Default 30s.
	ReadTimeout time.Duration `key:"read_timeout"`
	// Time a client has to take an ordinary answer. Streams have sse.write_timeout. Default 30s.
	WriteTimeout time.Duration `key:"write_timeout"`
	// How long a kept-alive connection may wait for its next request. Longer saves handshakes and holds connections.
	// Default 1m15s.
	IdleTimeout time.Duration `key:"idle_timeout"`
	// Time for one request that does not wait for a turn. Default 30s.
	RequestTimeout time.Duration `key:"request_timeout"`
	// Largest request body; larger ones are 413. Default 1MiB.
	MaxBody Size `key:"max_body"`
	// Largest body of a request that may bring files: a JSON body (with files in base64) is held in memory. Files as raw
	// bytes are bounded by their agent's limit alone. Default 16MiB.
	MaxFileBody Size `key:"max_file_body"`
	// Largest request line and headers together; larger ones are 431. Each connection has a buffer of this size.
	// Default 16KiB.
	MaxHeader Size `key:"max_header"`
	// Longest path, without query; longer ones are 414. Default 4KiB.
	MaxPath Size `key:"max_path"`
	// Deepest nesting of a JSON body; deeper ones are 400. Default 64.
	MaxJSONDepth int `key:"max_json_depth"`
	// Connections open at once; further ones are 503. With the event streams they get no more of the process's file
	// descriptors than the store, other nodes and outgoing calls leave (the share is logged at the start). Default 65536.
	MaxConnections int `key:"max_connections"`

	// Further names by which a server without authentication is reached, such as that of a proxy that passes Host on. Over loopback
	// it answers to localhost, addresses, the name of the machine and these, so that no page of the web can reach it by a name of its own.
	// Default [].
	Hosts []string `key:"hosts"`

	CORS CORS `key:"cors"`
}

// CORS lets browser pages of other origins call the API.
type CORS struct {
	// Origins that may call, e.g. https://chat.example.com; "*" for any. Empty switches CORS off. Default [].
	Origins []string `key:"origins"`
	// Request headers they may send; a name that ends in * stands for all that begin so. The header that carries the token
	// (auth.header_name) is always among them. Default [Content-Type, Authorization, Last-Event-ID, X-Request-Id,
	// X-Read-Consistency, Idempotency-Key, X-Stainless-*].
	Headers []string `key:"headers"`
	// How long a browser may remember the answer to a preflight request. Default 24h.
	MaxAge time.Duration `key:"max_age"`
}

// Limits bounds what one caller may do. A caller is an identified user, else a network address. A backend with its own key
// is not bound; where authentication is off, only the number of streams of an address is.
type Limits struct {
	// Requests per second of one caller, averaged; over it 429 with Retry-After. 0 = no limit. Default 0.
	RequestsPerSecond float64 `key:"requests_per_second"`
	// Requests a caller may make at once before the rate applies. 0 = one second's worth. Default 0.
	Burst int `key:"burst"`
	// Event streams one caller may hold open; over it 429. 0 = no limit. Default 256.
	StreamsPerCaller int `key:"streams_per_caller"`
	// Callers remembered at once, about 200 bytes each; the one unseen for longest is forgotten first, and starts with
	// a full burst again. Default 100000.
	Callers int `key:"callers"`
}

// Conversation is about sizes and pages of the conversation API.
type Conversation struct {
	// Longest message text of a user. It must fit http.max_body. Default 256KiB.
	MaxMessage Size `key:"max_message"`
	// Largest metadata object of a conversation or message. Default 64KiB.
	MaxMetadata Size `key:"max_metadata"`
	// Conversations in a list page when the request does not say. Default 20.
	ListPageSize int `key:"list_page_size"`
	// Most conversations in a list page. Default 100.
	MaxListPageSize int `key:"max_list_page_size"`
	// Messages in a page when the request does not say. Default 100.
	MessagePageSize int `key:"message_page_size"`
	// Most messages in a page. Default 200.
	MaxPageSize int `key:"max_page_size"`
	// Events in a page of the log when the request does not say. Default 100.
	EventPageSize int `key:"event_page_size"`
	// Most events in a page of the log. Default 1000.
	MaxEventPageSize int `key:"max_event_page_size"`
	// Most ids in one bulk delete. Default 100.
	MaxBulkDelete int `key:"max_bulk_delete"`
	// How long a file is kept that was uploaded without a conversation: no message can name it. 0 = until it is deleted.
	// Default 168h.
	LooseFileRetention time.Duration `key:"loose_file_retention"`
	// How long a cancel waits for the turn to end before it answers 202 with settled: false. Default 2s.
	CancelWait time.Duration `key:"cancel_wait"`
	// Lets callers without any identity list the conversations that have no owner; otherwise that is 401.
	// Default false.
	AnonymousList bool `key:"anonymous_list"`
}

// Actors is about conversations that are in memory.
type Actors struct {
	// How long a conversation stays in memory after its last use. Longer answers sooner, shorter holds less memory; a
	// stored conversation costs none. Default 30s.
	IdleTimeout time.Duration `key:"idle_timeout"`
	// How long a write may wait for the log before it is answered 503, outcome unknown. Default 10s.
	AppendTimeout time.Duration `key:"append_timeout"`
	// Commands that may wait for one conversation; further ones are 503. Default 128.
	Mailbox int `key:"mailbox"`
	// Conversations in memory at once, about 3 KB each; above it the ones unused for longest go, busy ones stay. Default
	// 20000.
	MaxActive int `key:"max_active"`
}

// Turn bounds the answer cycle of an agent.
type Turn struct {
	// Turns running at once on this node; further ones are refused with 503. Default 10000.
	MaxConcurrent int `key:"max_concurrent"`
	// Longest turn in all; then it ends with stop reason error. Default 15m.
	Timeout time.Duration `key:"timeout"`
	// Model calls in one turn (tool rounds) when the agent does not say. Default 16.
	MaxRounds int `key:"max_rounds"`
	// Longest answer of one turn; then it ends with stop reason limit. Default 1MiB.
	MaxAnswer Size `key:"max_answer"`
	// Most bytes that a model may send for one of its answers, on the wire: what it thinks and keep-alives count, too. Then the
	// turn ends with stop reason error. How long it may take is a setting of each agent's model. Default 64MiB.
	MaxStream Size `key:"max_stream"`
	// How long a cancelled turn may take to wind down before its lease is taken away. Default 5s.
	StopTimeout time.Duration `key:"stop_timeout"`
	// Output tokens of one metering step: a conversation with a budget may spend at most the cost of one step more than
	// is known to be spent. Fewer lose less when a node dies in mid-call and write the log more often. Default 256.
	MeterTokens int `key:"meter_tokens"`
}

// SSE is about event streams.
type SSE struct {
	// Silence after which a comment line is sent, so that proxies keep the stream open; streams of the gateway, too. As often it is
	// asked whether the caller's token still permits the stream, or a request that takes long. Default 15s.
	Ping time.Duration `key:"ping"`
	// Bytes that may wait for one slow client; over it the stream is closed and the client comes back with
	// Last-Event-ID. Larger forgives slower clients and costs memory. Default 64KiB.
	Queue Size `key:"queue"`
	// Send buffer of a stream's socket in the kernel. Smaller notices slow clients sooner and holds less memory.
	// Default 64KiB.
	SendBuffer Size `key:"send_buffer"`
	// How long a client may take nothing of what waits for it. Default 30s.
	WriteTimeout time.Duration `key:"write_timeout"`
	// Streams open at once on this node; further ones are 503. They share the file descriptors of http.max_connections.
	// Default 50000.
	MaxStreams int `key:"max_streams"`
}

// Ops is about the operations listener.
type Ops struct {
	// Serves /debug/pprof to other addresses than loopback, too. Profiles may show what is in memory. Default false.
	RemotePprof bool `key:"remote_pprof"`
	// Takes operators' commands (drain, backup) from other addresses than loopback, too. There is no authentication.
	// Default false.
	RemoteAdmin bool `key:"remote_admin"`
}

package config

import "time"

// Default returns the settings of a node that was told nothing.
func Default() *Config {
	return &Config{
		DataDir:       "./parley-data",
		Listen:        "127.0.0.1:8080",
		OpsListen:     "127.0.0.1:8081",
		ShutdownGrace: 25 * time.Second,
		Node:          Node{Name: "node-1"},
		Cluster:       defaultCluster(),
		Log:           Log{Level: "info", Format: "text"},
		Storage: Storage{
			Shards: 16, Cache: 128 * MiB, Memtable: 16 * MiB, MinFree: 256 * MiB,
			SnapshotEntries: 20_000, KeepEntries: 5_000, SnapshotRate: 16 * MiB, MaxOpenFiles: 1_000,
		},
		HTTP:   defaultHTTP(),
		Auth:   defaultAuth(),
		Limits: Limits{StreamsPerCaller: 256, Callers: 100_000},
		Conversation: Conversation{
			MaxMessage: 256 * KiB, MaxMetadata: 64 * KiB, ListPageSize: 20, MaxListPageSize: 100,
			MessagePageSize: 100, MaxPageSize: 200, EventPageSize: 100, MaxEventPageSize: 1_000,
			MaxBulkDelete: 100, LooseFileRetention: 168 * time.Hour, CancelWait: 2 * time.Second,
		},
		Actors: Actors{
			IdleTimeout: 30 * time.Second, AppendTimeout: 10 * time.Second, Mailbox: 128, MaxActive: 20_000,
		},
		Turn: Turn{
			MaxConcurrent: 10_000, Timeout: 15 * time.Minute, MaxRounds: 16, MaxAnswer: MiB, MaxStream: 64 * MiB,
			StopTimeout: 5 * time.Second, MeterTokens: 256,
		},
		Tools: Tools{Timeout: time.Minute, MaxResult: 64 * KiB, MaxTurnResults: MiB, MaxParallel: 8},
		HITL: HITL{
			Timeout: 24 * time.Hour, OnTimeout: "deny", ClientToolMaxOutput: 64 * KiB, PendingActionPolicy: "refuse",
		},
		Hooks:  defaultHooks(),
		Export: Exports{Timeout: 30 * time.Second, MaxConcurrent: 1},
		Tasks:  Tasks{CallbackTimeout: 10 * time.Second},
		Client: Client{
			BasePath: "/api/client/v1", License: "ON_PREMISE", RunWait: 30 * time.Second, MaxRunWait: 5 * time.Minute,
			RunConcurrency: 32, MaxQueuedRuns: 1_000, CallbackTimeout: 10 * time.Second,
			TokenCacheTTL: time.Minute, TokenCacheEntries: 10_000, IdempotencyTTL: 24 * time.Hour, UsageRetention: 400 * 24 * time.Hour,
		},
		Gateway: Gateway{
			RequestTimeout: 2 * time.Minute, StreamTimeout: 30 * time.Minute, MaxStream: 64 * MiB, MaxAttempts: 3,
			RetryDelay:       200 * time.Millisecond,
			BreakerThreshold: 5, BreakerReset: 30 * time.Second, MaxBody: 10 * MiB, MaxConcurrent: 4_096,
		},
		SSE: SSE{
			Ping: 15 * time.Second, Queue: 64 * KiB, SendBuffer: 64 * KiB, WriteTimeout: 30 * time.Second,
			MaxStreams: 50_000,
		},
		BuiltinAssistant: true,
	}
}

func defaultHooks() Hooks {
	hook := Hook{Timeout: 3 * time.Second, OnError: "refuse"}
	return Hooks{ResolveContext: hook, AuthorizeBudget: hook, AuthorizeResolve: hook, RateLimit: hook, OnFeedback: hook}
}

func defaultHTTP() HTTP {
	return HTTP{
		BasePath: "/api/agents", Page: true, Docs: true,
		ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 75 * time.Second,
		RequestTimeout: 30 * time.Second,
		MaxBody:        MiB, MaxFileBody: 16 * MiB, MaxHeader: 16 * KiB, MaxPath: 4 * KiB, MaxJSONDepth: 64, MaxConnections: 65_536,
		CORS: CORS{
			Headers: []string{
				"Content-Type", "Authorization", "Last-Event-ID", "X-Request-Id", "X-Read-Consistency", "Idempotency-Key", "X-Stainless-*",
			},
			MaxAge: 24 * time.Hour,
		},
	}
}

func defaultAuth() Auth {
	return Auth{
		HeaderName: "Authorization", TokenPrefix: "Bearer ", ResolveUserID: []string{"query", "body"},
		ExcludeRoutes: []string{"/docs", "/docs/*"},
		MaxToken:      8 * KiB, CacheEntries: 10_000,
		JWT: JWT{
			Leeway: 30 * time.Second, CacheTTL: time.Minute, JWKSRefresh: 10 * time.Minute,
			JWKSMaxStale: 24 * time.Hour, JWKSTimeout: 5 * time.Second, JWKSMaxBytes: 512 * KiB,
		},
		Callout: Callout{Timeout: 3 * time.Second, MaxConcurrent: 64},
	}
}

// assistant is the built-in agent.
func assistant() Agent {
	return Agent{
		ID:   "assistant",
		Name: "Assistant",
		Description: "A friendly guide to this server. It answers from a built-in script, word by word and without any " +
			"network, so that everything can be tried before a real model is connected.",
		Version:      "1",
		Instructions: "You are a friendly, concise assistant.",
		Welcome:      "Hi, I am the built-in assistant. I follow a script; connect a model to have a real conversation.",
		Starters: []string{
			"What can this server do?",
			"How do I connect a real model?",
			"Tell me a short story.",
			"What happens if the server is killed while you answer?",
		},
		Model: &Model{
			Provider: "scripted",
			Name:     "scripted",
			Script:   &Script{FirstTokenDelay: 150 * time.Millisecond, TokenInterval: 35 * time.Millisecond},
		},
	}
}

// demo is the built-in agent with which people, money and files can be tried. What it does follows from words in the
// message: the scripted model knows them (package model, canned answers).
func demo() Agent {
	yes := true
	return Agent{
		ID:   "demo",
		Name: "Demo",
		Description: "Asks for approvals, asks questions, calls a tool that this page runs, takes files and spends pretended " +
			"money: everything a conversation can do, from a built-in script.",
		Version:      "1",
		Instructions: "You show what this server can do.",
		Welcome:      "Ask me for something that needs your approval, let me ask you a question, or give me a file.",
		Starters: []string{
			"Do something that needs my approval.",
			"Ask me a question.",
			"Use a tool of my browser.",
			"What time is it?",
			"Tell me a long story.",
		},
		Model: &Model{
			Provider: "scripted", Name: "scripted",
			Script: &Script{FirstTokenDelay: 150 * time.Millisecond, TokenInterval: 35 * time.Millisecond},
			Price:  &Price{Input: nanoPerUSD, Output: 10 * nanoPerUSD},
		},
		Capabilities: Capabilities{
			AskUser:     true,
			Attachments: Attachments{Enabled: true, MaxFiles: 10, MaxFileSize: 10 * MiB, AcceptsImages: true},
		},
		Experience: Experience{Titles: &yes, Export: Export{IncludeTools: true}},
		Tools: []Tool{
			{Name: "current_time", Description: "Tells the time.", Builtin: "current_time", Idempotent: true},
			{
				Name: "roll_dice", Description: "Draws a random whole number from min to max.", Builtin: "random_number",
				Approval: "always", ApprovalPrompt: "May I roll the dice?",
			},
			{
				Name: "browser_info", Description: "Tells about the person's browser.", Client: true,
				Schema: map[string]any{"type": "object"},
			},
		},
	}
}

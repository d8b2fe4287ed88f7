package config

import (
	"time"

	"parley/actors/core/money"
)

// Default returns the settings of a node without any configuration: what the default tags say, and zero values elsewhere.
func Default() *Config {
	c := &Config{}
	for _, s := range settings(c) {
		if s.def != "" {
			_ = s.set(s.def, s.key) // TestDeclarations sees to it that all can be read
		}
	}
	return c
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

// demo is the built-in agent for trying out approvals, questions, budgets and files. Keywords in the message determine
// what it does (package model, canned answers).
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
			Price:  &Price{Input: money.PerUSD, Output: 10 * money.PerUSD},
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

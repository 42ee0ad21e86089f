// franz-go or sarama, named by the first argument. Orders and events are those of drivers/__init__.py.
package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// A client that orders name; a consumer only closes.
type client interface {
	send(topic, value string) error
	create(topic string) error
	close() error
}

// The constructors of one library.
type library struct {
	consume func(name, bootstrap, topic, group, protocol, reset string, heartbeat time.Duration) (client, error)
	produce func(name, bootstrap string, transactional bool) (client, error)
	admin   func(bootstrap string) (client, error)
}

var libraries = map[string]library{"franz-go": franz, "sarama": sarama_}
var speaking sync.Mutex

func say(name string, words ...any) {
	speaking.Lock()
	defer speaking.Unlock()
	fmt.Println(append([]any{"@", name}, words...)...)
}

func main() {
	made, clients := libraries[os.Args[1]], map[string]client{}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		words := strings.Fields(orders.Text())
		if err := obey(made, clients, words); err != nil {
			say(words[1], "error", err)
		}
	}
}

func obey(made library, clients map[string]client, words []string) (err error) {
	name := words[1]
	switch words[0] {
	case "consume":
		var heartbeat time.Duration
		if heartbeat, err = time.ParseDuration(words[7] + "ms"); err == nil {
			clients[name], err = made.consume(name, words[2], words[3], words[4], words[5], words[6], heartbeat)
		}
	case "produce", "transact":
		if clients[name], err = made.produce(name, words[2], words[0] == "transact"); err == nil {
			say(name, "ready")
		}
	case "admin":
		if clients[name], err = made.admin(words[2]); err == nil {
			say(name, "ready")
		}
	case "send":
		if err = clients[name].send(words[2], words[3]); err == nil {
			say(name, "sent")
		}
	case "create":
		if err = clients[name].create(words[2]); err == nil {
			say(name, "created")
		}
	case "close":
		closing := clients[name]
		delete(clients, name)
		go func() {
			say(name, "closing")
			if err := closing.close(); err != nil {
				say(name, "trouble", err)
			}
			say(name, "closed")
		}()
	}
	return err
}

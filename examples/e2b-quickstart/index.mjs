// A program for E2B, as it stands in their documentation; two environment variables point it at Pons (README.md).
import { Sandbox } from 'e2b'

const sandbox = await Sandbox.create()
console.log('sandbox', sandbox.sandboxId)

await sandbox.files.write('hello.py', 'print(sum(range(10)))')
const result = await sandbox.commands.run('python3 hello.py')
console.log('python says', result.stdout.trim())

const files = await sandbox.files.list('/home/user')
console.log('files', files.map((file) => file.name).join(', '))

await sandbox.kill()
console.log('gone')
